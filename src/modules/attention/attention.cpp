#include "modules/attention/attention.h"

#include "kha/core/attention_system.h"

namespace kha {

std::unique_ptr<Attention> make_attention(const ModelConfig& config, const Parameters& parameters,
                                          int64_t layer, KnockPlan plan) {
  attention_declaration(config.attention, "the model's attention");  // fails for another name
  return make_gqa(config, parameters, layer, plan);
}

}  // namespace kha
