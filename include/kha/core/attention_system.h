// What an attention system declares as data: its tensors, where a map may stand, what the cache
// holds, how the maps fold, what it costs. The parameter table, legality checks, caches, folding,
// counts, help and tests read these declarations; the arithmetic of the same system is in
// src/modules/attention/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kha/core/init.h"
#include "kha/core/knock_setting.h"

namespace kha {

struct ModelConfig;

// A tensor of one layer's attention, the maps apart; its name stands below "self_attn.".
struct AttentionTensor {
  std::string name;     // "q_proj"
  int64_t outputs = 0;  // rows; of a norm, the elements of its gain
  int64_t inputs = 0;   // 0: a norm
  bool may_have_bias = false;
  Init init = Init::normal;  // of a matrix; a norm starts at one
  // FLOPs of one token for each element: a product's 2; another number where no token is multiplied
  // by the whole of it. What each visible position costs is context_flops.
  double token_flops = 2;

  bool is_norm() const { return inputs == 0; }
};

// Which rows of a projection are heads: `heads` blocks of `width` rows, `stride` rows from one to
// the next, the first at row `begin`.
struct HeadRows {
  int64_t heads = 0;
  int64_t width = 0;  // of a head, and so of the map's matrices
  int64_t stride = 0;
  int64_t begin = 0;
};

// What takes in a linear map M of a slot when the model is folded.
enum class FoldHome {
  projection,  // the rows that it follows: M W_h
  queries,     // keys are cached plain: the queries' rows that meet them, M^T W_h
  output       // values are cached plain: the columns of o_proj, W_h M for every query head
};

// A slot's legal kinds, the reason against the others, and the projection that its map follows.
struct KnockPlace {
  KnockSlot slot;
  std::vector<KnockKind> legal;
  std::string reason_otherwise;
  // The AttentionTensor that linear_into speaks of, by name; `rows` are rows of it, or of the heads
  // that its columns read. Empty where no map is legal.
  std::function<std::string(const ModelConfig&)> projection;
  std::function<HeadRows(const ModelConfig&)> rows;
  bool values;  // attention is linear in what it gives: the last factor folds into o_proj
  FoldHome linear_into = FoldHome::projection;
};

// What the cache holds of one token in one layer: [heads, width].
struct CacheTensor {
  std::string name;
  int64_t heads = 0;
  int64_t width = 0;
};

struct AttentionDeclaration {
  std::string name;
  std::string meaning;
  std::vector<KnockPlace> places;
  std::function<std::vector<AttentionTensor>(const ModelConfig&)> tensors;
  std::function<std::vector<CacheTensor>(const ModelConfig&)> cache;
  // FLOPs of one query token for each position that it sees, forward, without projections.
  std::function<double(const ModelConfig&)> context_flops;
  // Fails where the sizes do not fit this system; `where` is named in the message.
  std::function<void(const ModelConfig&, const std::string& where)> check;
  // context_flops of a decode step that works on what is cached and forms no keys and values; where
  // it is empty, a decode step costs what a token costs in one pass.
  std::function<double(const ModelConfig&)> absorbed_context_flops = {};
  // Its arithmetic needs the logits of all pairs of positions as a tensor: no fused attention.
  bool forms_scores = false;

  const KnockPlace& place(KnockSlot slot) const;
  // Elements that the cache holds for one token in one layer.
  int64_t cache_elements(const ModelConfig& config) const;
  // FLOPs of one decoded token for each cached position, without projections.
  double decode_context_flops(const ModelConfig& config) const;
};

const std::vector<AttentionDeclaration>& attention_declarations();

// Fails with the nearest name for a system that does not exist.
const AttentionDeclaration& attention_declaration(const std::string& name,
                                                  const std::string& where);

// Fails, with the declared reason and the legal kinds, where a map may not stand.
void check_legal(const AttentionDeclaration& system, const LayerKnocks& knocks,
                 const std::string& where);

}  // namespace kha
