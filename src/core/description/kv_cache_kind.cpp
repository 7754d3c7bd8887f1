#include "kha/core/kv_cache_kind.h"

#include <algorithm>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {

const std::vector<std::string>& kv_cache_kind_names() {
  static const std::vector<std::string> names{"model", "int8"};
  return names;
}

std::string to_string(KvCacheKind kind) {
  return kv_cache_kind_names()[static_cast<std::size_t>(kind)];
}

KvCacheKind parse_kv_cache_kind(const std::string& text, const std::string& where) {
  const auto& names = kv_cache_kind_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    fail({.what = "unknown kind of KV cache `" + text + "`" + did_you_mean(text, names),
          .where = where,
          .expected = "model or int8",
          .found = text});
  }
  return static_cast<KvCacheKind>(found - names.begin());
}

std::int64_t cache_bytes_per_token(const ModelConfig& config, KvCacheKind kind,
                                   std::int64_t element_bytes) {
  std::int64_t bytes = 0;
  for (const CacheTensor& tensor : attention_declaration(config.attention, "").cache(config)) {
    const auto scale_bytes = static_cast<std::int64_t>(sizeof(float));
    bytes += tensor.heads * (kind == KvCacheKind::int8 ? tensor.width + scale_bytes
                                                       : tensor.width * element_bytes);
  }
  return config.num_hidden_layers * bytes;
}

}  // namespace kha
