// One file a system; attention_system.cpp lists them.
#pragma once

#include "kha/core/attention_system.h"
#include "kha/core/model_config.h"

namespace kha {

AttentionDeclaration declare_gqa();
AttentionDeclaration declare_gta();
AttentionDeclaration declare_gta_value();
AttentionDeclaration declare_gta_apart();
AttentionDeclaration declare_mla();
AttentionDeclaration declare_gla();
AttentionDeclaration declare_talking();
AttentionDeclaration declare_collaborative();

inline const std::vector<KnockKind> every_kind{KnockKind::none, KnockKind::linear, KnockKind::mlp,
                                               KnockKind::gate};

// Rows that are heads from the first to the last.
inline HeadRows whole_heads(int64_t heads, int64_t width) {
  return {.heads = heads, .width = width, .stride = width};
}

// A projection of one name, whatever the sizes are.
inline std::function<std::string(const ModelConfig&)> always(std::string name) {
  return [name = std::move(name)](const ModelConfig&) { return name; };
}

// Fails where a part that the system does not have (rope_head_dim, kv_latent, …) is set; `own` are
// those that it has.
void refuse_parts(const ModelConfig& config, const std::string& where,
                  const std::vector<std::string>& own);

// Fails where a size is not `good`.
void require_part(const std::string& where, const std::string& key, int64_t value, bool good,
                  const std::string& expected);

}  // namespace kha
