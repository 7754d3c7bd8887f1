#include "model/generate/next_logits.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

namespace kha {
namespace {

// [1, T] int64
at::Tensor as_batch(std::span<const std::int64_t> ids, at::Device device) {
  at::Tensor batch = at::empty({1, static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::memcpy(batch.mutable_data_ptr(), ids.data(), ids.size_bytes());
  return batch.to(device);
}

}  // namespace

NextLogits::NextLogits(const LoadedModel& model, const GenerateOptions& options,
                       std::int64_t positions)
    : decoder_(model.config, model.parameters.to(options.device).cast(options.dtype), options.plan,
               positions),
      device_(options.device) {
  if (options.use_cache) {
    cache_.emplace(model.config, 1, positions, options.dtype, options.device, options.kv_cache);
  }
}

std::optional<CacheUse> use_of(const std::optional<KvCache>& cache) {
  if (!cache) return {};
  const int64_t places = cache->batch() * cache->capacity();
  return CacheUse{cache->bytes() / places, places, cache->bytes()};
}

std::vector<float> NextLogits::after(std::span<const std::int64_t> ids, std::int64_t count) {
  const at::NoGradGuard no_grad;
  const std::int64_t seen = cache_ ? cache_->length() : 0;
  const at::Tensor hidden =
      decoder_.hidden(as_batch(ids.subspan(seen), device_), cache_ ? &*cache_ : nullptr);
  const at::Tensor last = hidden.select(1, hidden.size(1) - 1);
  const at::Tensor logits = decoder_.logits(last).flatten().to(at::kCPU, at::kFloat).contiguous();
  const float* values = logits.const_data_ptr<float>();
  return {values, values + count};
}

}  // namespace kha
