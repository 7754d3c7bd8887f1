// Talking-heads attention (arXiv 2003.02436): grouped-query attention whose heads are mixed twice,
// in their logits before the mask and in their weights behind the softmax.
#include "core/description/attention/declarations.h"

namespace kha {
namespace {

// Row a of logit_mix: what head a takes of each head's logits; of weight_mix: of each head's
// weights. With the identity in both it is gqa.
std::vector<AttentionTensor> tensors(const ModelConfig& c) {
  std::vector<AttentionTensor> list = declare_gqa().tensors(c);
  const int64_t heads = c.num_attention_heads;
  for (const char* name : {"logit_mix", "weight_mix"}) {
    list.push_back({.name = name,
                    .outputs = heads,
                    .inputs = heads,
                    .init = Init::identity,
                    .token_flops = 0});
  }
  return list;
}

// Each mixing is a product of H x H at every visible position.
double context_flops(const ModelConfig& c) {
  const auto heads = static_cast<double>(c.num_attention_heads);
  return heads * (4.0 * static_cast<double>(c.head_dim) + 4.0 * heads);
}

}  // namespace

// Mixing acts on logits and weights, maps on features: neither is in the other's way.
AttentionDeclaration declare_talking() {
  AttentionDeclaration talking = declare_gqa();
  talking.name = "talking";
  talking.meaning =
      "talking heads: gqa with logits and weights mixed across heads; keeps several tensors of "
      "heads x T x T a layer";
  talking.tensors = tensors;
  talking.context_flops = context_flops;
  talking.forms_scores = true;
  return talking;
}

}  // namespace kha
