#include <algorithm>

#include "core/description/attention/declarations.h"
#include "core/description/require.h"
#include "kha/core/error.h"

namespace kha {

std::vector<std::pair<std::string, int64_t>> attention_parts(const ModelConfig& c) {
  return {{"rope_head_dim", c.rope_head_dim},   {"kv_latent", c.kv_latent},
          {"latent_heads", c.latent_heads},     {"query_latent", c.query_latent},
          {"value_head_dim", c.value_head_dim}, {"shared_key_width", c.shared_key_width}};
}

void refuse_parts(const ModelConfig& c, const std::string& where,
                  const std::vector<std::string>& own) {
  std::vector<std::pair<std::string, int64_t>> parts = attention_parts(c);
  parts.emplace_back("content_bias", c.content_bias);
  for (const auto& [key, value] : parts) {
    if (value == 0 || std::find(own.begin(), own.end(), key) != own.end()) continue;
    fail({.what = "attention `" + c.attention + "` has no `" + key + "`",
          .where = where,
          .expected =
              key == "content_bias" ? "false, or another attention" : "0, or another attention",
          .found = key == "content_bias" ? "true" : std::to_string(value),
          .next = "remove the key, or name the attention that was meant"});
  }
}

void require_part(const std::string& where, const std::string& key, int64_t value, bool good,
                  const std::string& expected) {
  require(good, where, key, std::to_string(value), expected);
}

}  // namespace kha
