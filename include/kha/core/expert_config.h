// The mixture of experts of a model: sizes and router. `count` 0 is a dense model.
#pragma once

#include <cstdint>
#include <string>

namespace kha {

struct ExpertConfig {
  int64_t count = 0;        // E: experts of a layer
  int64_t active = 0;       // k: experts of a token
  int64_t width = 0;        // f: an expert's feed-forward width
  int64_t shared = 0;       // experts that every token passes, each of width f
  int64_t first_dense = 0;  // layers in front whose feed-forward is dense (intermediate_size)
  // sigmoid: scores of each expert alone, selection by score + bias, weights by score (Glm4Moe).
  // softmax: scores over all experts, no bias (Qwen3Moe).
  std::string router = "sigmoid";
  bool normalise = true;  // the weights of a token's experts sum to one
  double scaling = 1.0;   // times every weight
  // Experts divide into groups of equal size, and a token chooses within its open_groups best:
  // those with the largest sum of two biased scores (sigmoid), or the largest score (softmax).
  int64_t groups = 1;
  int64_t open_groups = 1;

  bool any() const { return count > 0; }
  // Whether the feed-forward of a layer (from 0) is a mixture.
  bool in_layer(int64_t layer) const { return any() && layer >= first_dense; }
  // Selection adds a bias of each expert, which balancing moves; the weights never see it.
  bool selection_bias() const { return any() && router == "sigmoid"; }
  // The type of transformers whose keys and names describe the model.
  std::string base_type() const {
    if (!any()) return "qwen3";
    return router == "softmax" ? "qwen3_moe" : "glm4_moe";
  }
  // Computed exactly by a class of transformers: none, Qwen3-MoE, or Glm4-MoE, whose shared expert
  // is always there.
  bool plain() const {
    if (!any()) return true;
    return router == "softmax" ? shared == 0 && scaling == 1.0 && groups == 1 : shared > 0;
  }
  bool operator==(const ExpertConfig&) const = default;
};

}  // namespace kha
