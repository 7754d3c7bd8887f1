// The logits of the token that follows a growing text, with a cache or without.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/decoder.h"
#include "model/generate/generate.h"

namespace kha {

// None without a cache.
std::optional<CacheUse> use_of(const std::optional<KvCache>& cache);

class NextLogits {
 public:
  // Room for `positions` tokens.
  NextLogits(const LoadedModel& model, const GenerateOptions& options, std::int64_t positions);

  // The logits after the last of `ids`, the first `count` of the vocabulary, as float32. A cache
  // takes the ids that it has not seen; `ids` only ever grow.
  std::vector<float> after(std::span<const std::int64_t> ids, std::int64_t count);
  std::optional<CacheUse> cache_use() const { return use_of(cache_); }

 private:
  Decoder decoder_;
  std::optional<KvCache> cache_;
  at::Device device_;
};

}  // namespace kha
