// In which numbers a KV cache keeps what attention declares (AttentionDeclaration::cache).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kha/core/model_config.h"

namespace kha {

enum class KvCacheKind {
  model,  // the numbers of the arithmetic: nothing is rounded
  int8,   // one byte an element, and a float32 scale for each head and position
};

const std::vector<std::string>& kv_cache_kind_names();
std::string to_string(KvCacheKind kind);
// Fails with the nearest name for another text; `where` is named in the message.
KvCacheKind parse_kv_cache_kind(const std::string& text, const std::string& where);

// Bytes that the cache holds for one token in all layers, scales included. `element_bytes` is the
// width of the arithmetic's type: 4 in float32, 2 in bfloat16.
std::int64_t cache_bytes_per_token(const ModelConfig& config, KvCacheKind kind,
                                   std::int64_t element_bytes);

}  // namespace kha
