#include "modules/kv_cache.h"

#include <ATen/Functions.h>

#include <cassert>

#include "kha/core/attention_system.h"

namespace kha {

KvCache::KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::ScalarType dtype,
                 at::Device device, KvCacheKind kind)
    : capacity_(capacity), config_(config), batch_(batch), dtype_(dtype), device_(device) {
  const bool int8 = kind == KvCacheKind::int8;
  const auto zeros = [&](int64_t heads, int64_t width, at::ScalarType type) {
    return at::zeros({batch, capacity, heads, width},
                     at::TensorOptions().dtype(type).device(device));
  };
  const auto& system = attention_declaration(config.attention, "the model's attention");
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    std::vector<Kept>& entry = layers_.emplace_back();
    for (const CacheTensor& tensor : system.cache(config)) {
      entry.push_back({zeros(tensor.heads, tensor.width, int8 ? at::kChar : dtype),
                       int8 ? zeros(tensor.heads, 1, at::kFloat) : at::Tensor()});
    }
  }
}

at::Tensor KvCache::append(const Kept& kept, const at::Tensor& entry) const {
  const int64_t added = entry.size(1);
  assert(length_ + added <= capacity_);
  const auto place = [&](const at::Tensor& whole) { return whole.narrow(1, length_, added); };
  const auto filled = [&](const at::Tensor& whole) { return whole.narrow(1, 0, length_ + added); };
  if (!kept.scales.defined()) {
    place(kept.values).copy_(entry);
    return filled(kept.values);
  }
  const Int8Rows rows = to_int8(entry);
  place(kept.values).copy_(rows.values);
  place(kept.scales).copy_(rows.scales);
  return from_int8({filled(kept.values), filled(kept.scales)}, dtype_);
}

CacheEntry KvCache::append(int64_t layer, const CacheEntry& entry) {
  const std::vector<Kept>& kept = layers_[layer];
  assert(entry.size() == kept.size());
  CacheEntry all;
  for (size_t i = 0; i < kept.size(); ++i) all.push_back(append(kept[i], entry[i]));
  return all;
}

int64_t KvCache::bytes() const {
  int64_t bytes = 0;
  for (const auto& layer : layers_) {
    for (const Kept& kept : layer) {
      bytes += static_cast<int64_t>(kept.values.nbytes());
      if (kept.scales.defined()) bytes += static_cast<int64_t>(kept.scales.nbytes());
    }
  }
  return bytes;
}

}  // namespace kha
