// The equalities that a whole model stands on, each on a tiny one.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "core/surgery/fold_plan.h"
#include "kha/core/parameter_table.h"
#include "kha/core/safetensors.h"
#include "kha/core/temporary_folder.h"
#include "model/decoder.h"
#include "model/initialise.h"
#include "model/self_test/compare.h"
#include "model/self_test/self_test.h"
#include "model/tensor_bytes.h"
#include "modules/causal.h"

namespace kha {
namespace {

// Queries of the last 3 of 7 positions; softmax over the keys that they may see, in double.
at::Tensor attention_written_out(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t length = q.size(1), cached = k.size(1), group = q.size(2) / k.size(2);
  const at::Tensor keys = k.repeat_interleave(group, 2), values = v.repeat_interleave(group, 2);
  const at::Tensor scores = at::einsum("bihd,bjhd->bhij", {q, keys}) / std::sqrt(double(q.size(3)));
  const at::Tensor query_position = at::arange(cached - length, cached).unsqueeze(1);
  const at::Tensor hidden = at::arange(cached).unsqueeze(0) > query_position;
  return at::einsum("bhij,bjhd->bihd", {scores.masked_fill(hidden, -INFINITY).softmax(-1), values});
}

Measured attention_behind_a_cache() {
  const at::Tensor q = random_values({2, 3, 4, 8}, 1), k = random_values({2, 7, 2, 8}, 2),
                   v = random_values({2, 7, 2, 8}, 3);
  const at::Tensor y = causal_attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat));
  return {largest_difference(y, attention_written_out(q, k, v)), 1e-5};
}

ModelConfig tiny_config(const LayerKnocks& knocks) {
  ModelConfig config;
  config.vocab_size = 13;
  config.hidden_size = 20;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.attention_bias = true;
  config.knocks.all = knocks;
  return config;
}

at::Tensor logits_of(const ModelConfig& config, const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(11, at::kLong).unsqueeze(0);
  const Decoder decoder(config, parameters, KnockPlan::activation_space, ids.size(1));
  return decoder.logits(decoder.hidden(ids));
}

Measured identity_start(const std::string& setting) {
  const ModelConfig plain = tiny_config({}),
                    knocked = tiny_config(named_setting(setting, "").knocks);
  const at::Tensor without = logits_of(plain, initialise(plain, KnockStart::identity, 1));
  const at::Tensor with = logits_of(knocked, initialise(knocked, KnockStart::identity, 1));
  return {largest_difference(with, without), 0};
}

// Every parameter at its start plus noise, in double: no map is symmetric, none is the identity.
Parameters random_parameters(const ModelConfig& config) {
  Parameters parameters;
  std::uint64_t seed = 0;
  const Parameters start = initialise(config, KnockStart::identity, 1);
  for (const auto& [name, value] : start.entries()) {
    parameters.add(name, value.to(at::kDouble) + 0.2 * random_values(value.sizes(), ++seed));
  }
  return parameters;
}

Parameters folded(const Parameters& parameters, const FoldPlan& plan) {
  Parameters result;
  for (const auto& spec : parameter_table(plan.after)) {
    at::Tensor value = parameters.at(spec.name).clone();
    const auto edit = plan.edits.find(spec.name);
    if (edit != plan.edits.end()) {
      edit->second({value.mutable_data_ptr<double>(), static_cast<std::size_t>(value.numel())});
    }
    result.add(spec.name, value);
  }
  return result;
}

Measured fold_in_memory() {
  const ModelConfig config = tiny_config({KnockKind::linear, KnockKind::linear, KnockKind::mlp});
  const Parameters parameters = random_parameters(config);
  const FoldPlan plan = plan_fold(config, {}, [&](const std::string& name) -> Matrix {
    const at::Tensor& value = parameters.at(name);
    return Eigen::Map<const Matrix>(value.const_data_ptr<double>(), value.size(0), value.size(1));
  });
  const at::Tensor before = logits_of(config, parameters);
  return {largest_difference(logits_of(plan.after, folded(parameters, plan)), before),
          1e-11 * largest_magnitude(before)};
}

Measured safetensors_round_trip() {
  const TemporaryFolder folder("self-test");
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    tensors.emplace_back("t" + std::to_string(tensors.size()), random_values({3, 5}, 1).to(type));
  }
  write_tensors(folder.path() / "model.safetensors", tensors);
  const auto file = SafetensorsFile::open(folder.path() / "model.safetensors");
  double differing = 0;
  for (const auto& [name, value] : tensors) {
    const at::Tensor back = read_tensor(file.bytes(name), file.at(name));
    if (back.scalar_type() != value.scalar_type() || !back.equal(value)) ++differing;
  }
  return {differing, 0};
}

}  // namespace

std::vector<Check> model_checks() {
  std::vector<Check> checks{{"causal attention behind a cache", attention_behind_a_cache}};
  for (const auto& setting : named_settings()) {
    if (setting.name == "baseline") continue;
    checks.push_back({"identity start of " + setting.name,
                      [name = setting.name] { return identity_start(name); }});
  }
  checks.push_back({"fold leaves the logits", fold_in_memory});
  checks.push_back({"safetensors file written and read", safetensors_round_trip});
  return checks;
}

}  // namespace kha
