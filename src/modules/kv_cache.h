// What attention keeps of past positions, one entry a layer, allocated once.
#pragma once

#include <vector>

#include "kha/core/model_config.h"
#include "modules/attention/attention.h"

namespace kha {

class KvCache {
 public:
  // Room for `capacity` positions of `batch` sequences, zeroed: unwritten memory is never read.
  KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::ScalarType dtype,
          at::Device device);

  // Appends to one layer and gives all of its positions.
  CacheEntry append(int64_t layer, const CacheEntry& entry);
  // Counts the appended positions, once every layer has them.
  void advance(int64_t positions) { length_ += positions; }

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }

  // For what it was made: cache_fit.h compares.
  const ModelConfig& config() const { return config_; }
  int64_t batch() const { return batch_; }
  at::ScalarType dtype() const { return dtype_; }
  at::Device device() const { return device_; }

 private:
  std::vector<CacheEntry> layers_;
  int64_t length_ = 0;
  int64_t capacity_;
  ModelConfig config_;
  int64_t batch_;
  at::ScalarType dtype_;
  at::Device device_;
};

}  // namespace kha
