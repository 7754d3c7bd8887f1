// Every parameter of a model by name: one list for building, initialising, optimising, saving,
// counting and inspecting. Names and shapes are those of the checkpoint (docs/design.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kha/core/init.h"
#include "kha/core/model_config.h"

namespace kha {

// The optimiser's groups follow the roles.
enum class Role { embedding, head, matrix, norm, bias, knock, expert };

std::string to_string(Role role);
inline constexpr Role all_roles[] = {Role::embedding, Role::head,  Role::matrix, Role::norm,
                                     Role::bias,      Role::knock, Role::expert};

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;  // linear weights are [out, in]
  Role role;
  Init init;
  int64_t layer = -1;   // -1 outside the layers
  int64_t expert = -1;  // of a routed expert: its number in the layer
  // false: a buffer, which is saved with the model and which no gradient moves (the router's
  // selection bias).
  bool trained = true;

  int64_t elements() const;
};

// In the order of the model's data flow. `start` decides how the maps begin.
std::vector<ParameterSpec> parameter_table(const ModelConfig& config,
                                           KnockStart start = KnockStart::identity);

// The matrices of one map, as stored: linear: weight; mlp: up, gate, down; gate: gate.
struct KnockTensor {
  std::string suffix;       // e.g. "up.weight"
  bool starts_at_identity;  // else it starts at zero
};
std::vector<KnockTensor> knock_tensors(KnockKind kind);

// "model.layers.3.mlp."
std::string feed_forward_prefix(int64_t layer);
// "model.layers.3.self_attn."
std::string attention_prefix(int64_t layer);
// "model.layers.3.self_attn.knock_v.up.weight"
std::string knock_name(int64_t layer, KnockSlot slot, const std::string& suffix);

}  // namespace kha
