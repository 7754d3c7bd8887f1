#include <algorithm>

#include "core/description/attention/declarations.h"
#include "kha/core/error.h"

namespace kha {

std::vector<std::pair<std::string, int64_t>> attention_parts(const ModelConfig& c) {
  return {{"rope_head_dim", c.rope_head_dim},
          {"kv_latent", c.kv_latent},
          {"latent_heads", c.latent_heads},
          {"query_latent", c.query_latent},
          {"value_head_dim", c.value_head_dim}};
}

void refuse_parts(const ModelConfig& c, const std::string& where,
                  const std::vector<std::string>& own) {
  for (const auto& [key, value] : attention_parts(c)) {
    if (value == 0 || std::find(own.begin(), own.end(), key) != own.end()) continue;
    fail({.what = "attention `" + c.attention + "` has no `" + key + "`",
          .where = where,
          .expected = "0, or another attention",
          .found = std::to_string(value),
          .next = "remove the key, or name the attention that was meant"});
  }
}

void require_part(const std::string& where, const std::string& key, int64_t value, bool good,
                  const std::string& expected) {
  if (good) return;
  fail({.what = "`" + key + "` does not make a model",
        .where = where,
        .expected = expected,
        .found = std::to_string(value)});
}

}  // namespace kha
