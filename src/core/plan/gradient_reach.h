// Where in a pass gradients are wanted. What needs none keeps nothing for the backward pass.
#pragma once

#include <vector>

#include "kha/core/memory_plan.h"

namespace kha {

// One layer, from its input upwards; as it stands, a layer of which everything is trained.
struct LayerReach {
  bool input = true;              // something below the layer is trained
  Training training = {};         // of the layer's own parameters
  std::set<KnockSlot> maps = {};  // whose rows a trained map makes
  bool output_map = false;        // one that is trained stands in front of the output's projection
  bool biases = false;            // projections have some that are trained

  bool trains(Role role) const { return training.trains(role); }
  // What the attention's norm gives; what a slot's projection and map make of it.
  bool attention_rows() const { return input || trains(Role::norm); }
  bool slot(KnockSlot slot) const {
    return attention_rows() || trains(Role::matrix) || biases || maps.contains(slot);
  }
  bool any_slot() const {
    return attention_rows() || trains(Role::matrix) || biases || !maps.empty();
  }
  // What the attention gives, and the norm behind it.
  bool attended() const { return any_slot() || output_map; }
  bool feed_forward_rows() const { return attended() || trains(Role::norm); }
  bool fed_forward(bool mixture) const {
    return feed_forward_rows() || trains(Role::matrix) || (mixture && trains(Role::expert));
  }
};

// Of every layer.
std::vector<LayerReach> gradient_reach(const ModelConfig& config, const Training& training);

}  // namespace kha
