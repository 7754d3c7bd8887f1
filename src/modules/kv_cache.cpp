#include "modules/kv_cache.h"

#include <ATen/Functions.h>

#include <cassert>

#include "kha/core/attention_system.h"

namespace kha {

KvCache::KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::ScalarType dtype,
                 at::Device device)
    : capacity_(capacity), config_(config), batch_(batch), dtype_(dtype), device_(device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const auto& system = attention_declaration(config.attention, "the model's attention");
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    CacheEntry& entry = layers_.emplace_back();
    for (const CacheTensor& tensor : system.cache(config)) {
      entry.push_back(at::zeros({batch, capacity, tensor.heads, tensor.width}, options));
    }
  }
}

CacheEntry KvCache::append(int64_t layer, const CacheEntry& entry) {
  CacheEntry& cache = layers_[layer];
  assert(entry.size() == cache.size());
  CacheEntry all;
  for (size_t i = 0; i < cache.size(); ++i) {
    const int64_t added = entry[i].size(1);
    assert(length_ + added <= capacity_);
    cache[i].narrow(1, length_, added).copy_(entry[i]);
    all.push_back(cache[i].narrow(1, 0, length_ + added));
  }
  return all;
}

}  // namespace kha
