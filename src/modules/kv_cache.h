// What attention keeps of past positions, one entry a layer, allocated once.
#pragma once

#include <vector>

#include "kha/core/kv_cache_kind.h"
#include "kha/core/model_config.h"
#include "modules/attention/attention.h"
#include "modules/int8_rows.h"

namespace kha {

class KvCache {
 public:
  // Room for `capacity` positions of `batch` sequences, zeroed: unwritten memory is never read.
  // `dtype` is that of the arithmetic, whatever the cache is kept in.
  KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::ScalarType dtype,
          at::Device device, KvCacheKind kind = KvCacheKind::model);

  // Appends to one layer and gives all of its positions, as the cache holds them: in int8 the new
  // ones too are rounded, so a text gives the same in whatever stretches it comes. (int8: one
  // layer's numbers are alive in the arithmetic's type while it attends.)
  CacheEntry append(int64_t layer, const CacheEntry& entry);
  // Counts the appended positions, once every layer has them.
  void advance(int64_t positions) { length_ += positions; }

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  // Of all layers and the whole capacity, scales included.
  int64_t bytes() const;

  // For what it was made: cache_fit.h compares.
  const ModelConfig& config() const { return config_; }
  int64_t batch() const { return batch_; }
  at::ScalarType dtype() const { return dtype_; }
  at::Device device() const { return device_; }

 private:
  // [B, capacity, heads, width]; the scales are undefined where nothing is rounded.
  using Kept = Int8Rows;

  at::Tensor append(const Kept& kept, const at::Tensor& entry) const;

  std::vector<std::vector<Kept>> layers_;
  int64_t length_ = 0;
  int64_t capacity_;
  ModelConfig config_;
  int64_t batch_;
  at::ScalarType dtype_;
  at::Device device_;
};

}  // namespace kha
