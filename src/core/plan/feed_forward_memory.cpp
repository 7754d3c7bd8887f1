// Counted from src/modules/feed_forward.cpp and src/modules/experts.
#include "core/plan/layer_memory.h"

namespace kha {
namespace {

// Gate and up are kept; backward needs three tensors of their width at its last product, and at its
// first ones two, with two of the model's width.
void add_dense(PartMemory& part, double width, double model, double down, double gradients) {
  part.kept += 2 * width;
  part.moments.push_back(
      {.elements = part.kept + 3 * width + model, .gradients = down, .fresh = down});
  part.moments.push_back(
      {.elements = part.kept + 3 * model, .gradients = gradients, .fresh = down});
}

// Of each of a token's experts gate and up, its weight, its number and the two of its sorted place,
// which are whole numbers of twice the size. The gradients of all experts are made together, beside
// what the rows of one expert need: the gate's product, its gradient and those of gate and up, two
// rows of the model's width. A fresh router sends nearly every token to one and the same expert, so
// they are counted as all tokens. Micro-batches add their gradients up where they lie.
void add_experts(PartMemory& part, const ExpertConfig& e, double model, const LayerParameters& p,
                 const LayerReach& reach) {
  const auto active = static_cast<double>(e.active), width = static_cast<double>(e.width),
             count = static_cast<double>(e.count);
  const double routing = count + 7 * active;
  part.kept += routing + 2 * active * width;
  const double rows = 4 * width + 2 * model;
  part.moments.push_back({.elements = part.kept + (e.shared > 0 ? 3 : 2) * model + active + rows,
                          .gradients = p.shared + p.experts});
  part.moments.push_back({.elements = 5 * model + 3 * count,
                          .gradients = p.feed_forward,
                          .fresh = reach.trains(Role::matrix) ? count * model : 0});
}

// Gate, up and their product, beside what came into the layer, what came out of its attention, its
// norm and the result; a mixture has the rows of one expert and a sum beside them.
double passing(const ModelConfig& c, bool mixture, double model) {
  const int64_t width = mixture ? c.experts.width : c.intermediate_size;
  return (mixture ? 6 : 4) * model + 3 * static_cast<double>(width);
}

}  // namespace

PartMemory feed_forward_memory(const ModelConfig& c, int64_t layer, const LayerParameters& p,
                               const LayerReach& reach) {
  const bool mixture = c.experts.in_layer(layer);
  const auto model = static_cast<double>(c.hidden_size);
  if (!reach.fed_forward(mixture)) return {.passing = passing(c, mixture, model)};
  PartMemory part{.parameters = p.feed_forward};
  // The norm's input, and its output, which a mixture keeps in any case.
  part.kept =
      (reach.feed_forward_rows() ? model : 0) + (mixture || reach.trains(Role::matrix) ? model : 0);
  if (!mixture) {
    add_dense(part, static_cast<double>(c.intermediate_size), model, p.down, p.feed_forward);
    return part;
  }
  add_experts(part, c.experts, model, p, reach);
  if (c.experts.shared == 0) return part;
  // Shared experts come first on the way back, with all that the routed ones keep.
  const auto width = static_cast<double>(c.experts.shared * c.experts.width);
  add_dense(part, width, model, p.down, p.shared);
  return part;
}

}  // namespace kha
