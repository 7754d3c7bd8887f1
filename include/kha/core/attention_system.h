// What an attention system declares as data: where a map may stand, what the cache holds, how the
// maps fold. Legality checks, cache accounts, folding, help and tests read these declarations; the
// arithmetic of the same system is in src/modules/attention/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kha/core/knock_setting.h"

namespace kha {

struct ModelConfig;

// A slot's legal kinds, the reason against the others, and the projection that its map follows.
struct KnockPlace {
  KnockSlot slot;
  std::vector<KnockKind> legal;
  std::string reason_otherwise;
  std::string projection;  // e.g. "q_proj": rows are heads x D; `linear` folds into it
  bool key_value_heads;    // the projection has H_kv heads, else H
  bool values;  // attention is linear in what it gives: the last factor folds into o_proj
};

struct AttentionDeclaration {
  std::string name;
  std::string meaning;
  std::vector<KnockPlace> places;
  // Elements that the cache holds for one token in one layer.
  std::function<int64_t(const ModelConfig&)> cache_elements;

  const KnockPlace& place(KnockSlot slot) const;
};

const std::vector<AttentionDeclaration>& attention_declarations();

// Fails with the nearest name for a system that does not exist.
const AttentionDeclaration& attention_declaration(const std::string& name,
                                                  const std::string& where);

// Fails, with the declared reason and the legal kinds, where a map may not stand.
void check_legal(const AttentionDeclaration& system, const LayerKnocks& knocks,
                 const std::string& where);

}  // namespace kha
