#include "modules/kv_cache.h"

#include <ATen/Functions.h>

#include <cassert>

namespace kha {

KvCache::KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::ScalarType dtype,
                 at::Device device)
    : capacity_(capacity) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const std::vector<int64_t> shape{batch, capacity, config.num_key_value_heads, config.head_dim};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    layers_.push_back({at::zeros(shape, options), at::zeros(shape, options)});
  }
}

CacheEntry KvCache::append(int64_t layer, const CacheEntry& entry) {
  const int64_t added = entry.keys_BTHD.size(1);
  assert(length_ + added <= capacity_);
  CacheEntry& cache = layers_[layer];
  cache.keys_BTHD.narrow(1, length_, added).copy_(entry.keys_BTHD);
  cache.values_BTHD.narrow(1, length_, added).copy_(entry.values_BTHD);
  return {cache.keys_BTHD.narrow(1, 0, length_ + added),
          cache.values_BTHD.narrow(1, 0, length_ + added)};
}

}  // namespace kha
