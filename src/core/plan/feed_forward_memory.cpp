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
// what the rows of one expert need. A fresh router sends nearly every token to one and the same
// expert, so they are counted as all tokens. Micro-batches add their gradients up where they lie.
void add_experts(PartMemory& part, const ExpertConfig& e, double model, const LayerParameters& p) {
  const auto active = static_cast<double>(e.active), width = static_cast<double>(e.width),
             count = static_cast<double>(e.count);
  const double routing = count + 7 * active;
  part.kept += routing + 2 * active * width;
  const double rows = 3 * width + 2 * model;
  part.moments.push_back({.elements = part.kept + (e.shared > 0 ? 3 : 2) * model + active + rows,
                          .gradients = p.shared + p.experts});
  part.moments.push_back(
      {.elements = 5 * model + 3 * count, .gradients = p.feed_forward, .fresh = count * model});
}

}  // namespace

PartMemory feed_forward_memory(const ModelConfig& c, int64_t layer, const LayerParameters& p) {
  const auto model = static_cast<double>(c.hidden_size);
  PartMemory part{.kept = 2 * model, .parameters = p.feed_forward};
  if (!c.experts.in_layer(layer)) {
    add_dense(part, static_cast<double>(c.intermediate_size), model, p.down, p.feed_forward);
    return part;
  }
  add_experts(part, c.experts, model, p);
  if (c.experts.shared == 0) return part;
  // Shared experts come first on the way back, with all that the routed ones keep.
  const auto width = static_cast<double>(c.experts.shared * c.experts.width);
  add_dense(part, width, model, p.down, p.shared);
  return part;
}

}  // namespace kha
