#include "modules/attention/attention.h"

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include <map>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"

namespace kha {

std::unique_ptr<Attention> make_attention(const ModelConfig& config, const Parameters& parameters,
                                          int64_t layer, KnockPlan plan, DecodeForm form) {
  static const std::map<std::string, decltype(&make_gqa)> makers{
      {"gqa", make_gqa},       {"talking", make_talking}, {"gta", make_gta},
      {"gta_value", make_gta}, {"gta_apart", make_gta},   {"collaborative", make_collaborative}};
  // Fails for another name.
  const auto& system = attention_declaration(config.attention, "the model's attention");
  if (system.absorbed_context_flops) return make_latent(config, parameters, layer, plan, form);
  if (form != DecodeForm::fewest_operations) {
    fail({.what = "attention `" + system.name + "` decodes in one form",
          .where = "the form of a decode step",
          .expected = "no form by name, or a system with latents"});
  }
  return makers.at(system.name)(config, parameters, layer, plan);
}

at::Tensor output_projection(const at::Tensor& heads, const at::Tensor& weight,
                             const at::Tensor& bias) {
  RECORD_USER_SCOPE("kha/attention projections");
  return at::linear(heads.flatten(2), weight,
                    bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace kha
