// Tiny models in memory, with all tests need to vary.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>
#include <vector>

#include "kha/core/parameter_table.h"
#include "model/decoder.h"
#include "model/initialise.h"
#include "model/model_io.h"

namespace kha::test {

// No two sizes are equal: 4 query heads, 2 KV heads, D = 6, d = 20, 2 layers.
inline ModelConfig tiny_config(const LayerKnocks& knocks = {}) {
  ModelConfig config;
  config.hidden_size = 20;
  config.intermediate_size = 28;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.max_position_embeddings = 64;
  config.eos_token_id = {256};
  config.knocks.all = knocks;
  return config;
}

// Every setting of the paper, and each kind alone on each slot.
inline std::vector<std::pair<std::string, LayerKnocks>> all_settings() {
  std::vector<std::pair<std::string, LayerKnocks>> settings;
  for (const auto& setting : named_settings()) settings.emplace_back(setting.name, setting.knocks);
  for (KnockSlot slot : knock_slots) {
    for (KnockKind kind : {KnockKind::linear, KnockKind::mlp, KnockKind::gate}) {
      LayerKnocks knocks;
      knocks.at(slot) = kind;
      settings.emplace_back(to_string(kind) + " on " + to_string(slot), knocks);
    }
  }
  return settings;
}

struct HeadCase {
  int64_t kv_heads;  // of 4: 4 is MHA, 2 GQA, 1 MQA
  bool bias;

  std::string name() const {
    return std::to_string(kv_heads) + " KV heads" + (bias ? ", biases" : "");
  }
};
inline const std::vector<HeadCase> head_cases{{4, false}, {2, false}, {1, false},
                                              {4, true},  {2, true},  {1, true}};

// Each start value plus noise, in double, keyed as the start is: the maps are neither symmetric nor
// the identity, norms and biases differ by channel.
inline Parameters random_parameters(const ModelConfig& config, int64_t seed = 1,
                                    double noise = 0.3) {
  Parameters parameters;
  const Parameters start = initialise(config, KnockStart::identity, seed);
  for (const auto& [name, value] : start.entries()) {
    const ParameterSpec spec{name, value.sizes().vec(), Role::matrix, Init::normal, 0};
    parameters.add(
        name, value.to(at::kDouble) + initial_tensor(spec, noise, seed + 1000).to(at::kDouble));
  }
  return parameters;
}

inline LoadedModel random_model(const ModelConfig& config, int64_t seed = 1) {
  return {config, random_parameters(config, seed).cast(at::kFloat)};
}

// [B, T] ids that repeat with no short period.
inline at::Tensor some_ids(int64_t batch, int64_t length, int64_t vocabulary = 257) {
  return (at::arange(batch * length, at::kLong).pow(2) * 37 + 11)
      .remainder(vocabulary)
      .view({batch, length});
}

inline at::Tensor logits_of(const ModelConfig& config, const Parameters& parameters,
                            const at::Tensor& ids, KnockPlan plan = KnockPlan::activation_space) {
  const at::NoGradGuard no_grad;
  const Decoder decoder(config, parameters, plan, ids.size(1));
  return decoder.logits(decoder.hidden(ids));
}

inline double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

}  // namespace kha::test
