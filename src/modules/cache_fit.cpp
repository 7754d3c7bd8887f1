#include "modules/cache_fit.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"

namespace kha {
namespace {

[[noreturn]] void fail_fit(const std::string& what, const std::string& expected,
                           const std::string& found, const std::string& cause) {
  fail({.what = what,
        .where = "the KV cache of a decoder",
        .expected = expected,
        .found = found,
        .cause = cause,
        .next = "make a KvCache from this model's configuration, for this batch"});
}

std::string entry_text(const ModelConfig& c) {
  std::string text;
  for (const CacheTensor& tensor : attention_declaration(c.attention, "").cache(c)) {
    text += fmt::format("{}{} {} x {}", text.empty() ? "" : ", ", tensor.name, tensor.heads,
                        tensor.width);
  }
  return text;
}

std::string maps_text(const ModelConfig& c) {
  std::string text;
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const LayerKnocks& knocks = c.knocks.at(layer);
    text += fmt::format("{}{} {} {}", layer > 0 ? ", " : "", to_string(knocks.q),
                        to_string(knocks.k), to_string(knocks.v));
  }
  return text;
}

// Both sides of the first thing that makes other entries.
void compare_models(const ModelConfig& wanted, const ModelConfig& made) {
  if (wanted == made) return;
  const auto compare = [](const std::string& what, const std::string& expected,
                          const std::string& found) {
    if (expected == found) return;
    fail_fit("the cache was made for another model: " + what, expected, found,
             "maps that were folded are in the cached values of one model and not of the other, "
             "and keys are cached after their rotation");
  };
  compare("its attention", wanted.attention, made.attention);
  compare("its layers", std::to_string(wanted.num_hidden_layers),
          std::to_string(made.num_hidden_layers));
  compare("what it keeps of a token", entry_text(wanted), entry_text(made));
  compare("its maps on q, k, v by layer", maps_text(wanted), maps_text(made));
  compare("its rotary layout", wanted.rotary_layout, made.rotary_layout);
  compare("its rotary base", fmt::format("{}", wanted.rope_theta),
          fmt::format("{}", made.rope_theta));
  compare("its rotary scaling", wanted.rotary_scaling.kind, made.rotary_scaling.kind);
  fail_fit("the cache was made for another model", "the configuration of this one",
           "another in its sizes, norms, biases or rotary embedding", "");
}

}  // namespace

void require_fit(const KvCache& cache, const ModelConfig& config, const at::Tensor& hidden) {
  compare_models(config, cache.config());
  if (cache.batch() != hidden.size(0)) {
    fail_fit("the cache was made for another batch", fmt::format("{} rows", hidden.size(0)),
             fmt::format("{} rows", cache.batch()), "");
  }
  if (cache.dtype() != hidden.scalar_type()) {
    fail_fit("the cache was made for other numbers", c10::toString(hidden.scalar_type()),
             c10::toString(cache.dtype()), "");
  }
  if (cache.device() != hidden.device()) {
    fail_fit("the cache lies on another device", hidden.device().str(), cache.device().str(), "");
  }
  const int64_t added = hidden.size(1);
  if (cache.length() + added <= cache.capacity()) return;
  fail(
      {.what = "the cache has no room for these tokens",
       .where = "the KV cache of a decoder",
       .expected = fmt::format("room for {} positions", cache.length() + added),
       .found = fmt::format("room for {}, of which {} are taken", cache.capacity(), cache.length()),
       .next = "make the cache with a larger capacity"});
}

}  // namespace kha
