#include "train/what_ran.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <thread>

#include "kha/core/attention_system.h"
#include "kha/core/version.h"
#include "kha/kernels/cpu_features.h"
#include "kha/ops/cpu_implementation.h"
#include "modules/experts/product_path.h"
#include "train/device.h"

namespace kha {
namespace {

at::ScalarType resolve_precision(const std::string& precision, const at::Device& device,
                                 std::vector<std::string>& warnings) {
  const bool fast = device.is_cuda() || cpu_features().bf16();
  if (precision == "fp32" || (precision == "auto" && !fast)) return at::kFloat;
  if (!fast) {
    warnings.push_back(
        "precision = \"bf16\": this CPU has no bf16 arithmetic (AVX512_BF16 or AMX); torch's bf16 "
        "product runs some 80 times slower than fp32 there (1.9 against 150 GFLOP/s measured)");
  }
  return at::kBFloat16;
}

KnockPlan resolve_plan(const RunConfig& config) {
  if (config.knock.plan == "weight") return KnockPlan::weight_space;
  if (config.knock.plan == "activation") return KnockPlan::activation_space;
  return choose_knock_plan(config.train.batch * config.train.context, config.model.hidden_size);
}

}  // namespace

Arithmetic resolve_arithmetic(const RunConfig& config, std::vector<std::string>& warnings) {
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(config.train.threads > 0 ? config.train.threads : cores));
  Arithmetic arithmetic;
  arithmetic.device = open_device(config.train.device);
  arithmetic.dtype = resolve_precision(config.train.precision, arithmetic.device, warnings);
  arithmetic.plan = resolve_plan(config);
  arithmetic.recompute = config.train.recompute == "layer" ? Recompute::layer : Recompute::none;
  return arithmetic;
}

namespace {

// Whose arithmetic float32 maps are; other dtypes and devices compose torch's.
std::string knock_implementation(const Arithmetic& arithmetic) {
  const bool own = arithmetic.device.is_cpu() && arithmetic.dtype == at::kFloat;
  return own ? ops::cpu_implementation() : "aten";
}

}  // namespace

WhatRan what_ran(const Arithmetic& arithmetic) {
  return {{"kha", version()},
          {"torch", TORCH_VERSION},
          {"device", arithmetic.device.is_cuda() ? "cuda" : "cpu"},
          {"precision", arithmetic.dtype == at::kBFloat16 ? "bf16" : "fp32"},
          {"cpu", at::get_cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())},
          {"linear_maps", std::string(to_string(arithmetic.plan))},
          {"knock", knock_implementation(arithmetic)}};
}

// What of the rotary embedding the operator does not compute; empty: nothing.
std::string composed_rotary(const ModelConfig& model) {
  const bool part = model.attention == "gqa" && model.rope_head_dim > 0;
  std::string kind = part ? "a part of each head" : "";
  if (model.rotary_layout == "interleaved") kind += part ? ", interleaved" : "interleaved";
  return kind;
}

// Whose products and softmax attention is made of, for positions that all belong to one text.
std::string attention_implementation(const Arithmetic& arithmetic, const ModelConfig& model) {
  return attention_declaration(model.attention, "").forms_scores ? "aten, scores formed"
                                                                 : knock_implementation(arithmetic);
}

WhatRan what_ran(const Arithmetic& arithmetic, const ModelConfig& model) {
  WhatRan ran = what_ran(arithmetic);
  ran["attention"] = attention_implementation(arithmetic, model);
  if (model.experts.any()) {
    const ProductFacts facts{arithmetic.device.type(), arithmetic.dtype, model.hidden_size,
                             model.experts.width};
    ran["experts"] = std::string(to_string(choose_product_path(facts)));
  }
  if (const std::string kind = composed_rotary(model); !kind.empty()) {
    ran["rotary"] = kind + ": aten, no norm_rope";
  }
  return ran;
}

std::vector<std::string> differences(const WhatRan& before, const WhatRan& after) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : after) {
    const auto old = before.find(key);
    const std::string was = old == before.end() ? "unknown" : old->second;
    if (was != value) changes.push_back(key + ": " + was + " -> " + value);
  }
  return changes;
}

}  // namespace kha
