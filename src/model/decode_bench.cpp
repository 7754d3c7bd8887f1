#include "model/decode_bench.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "kha/core/attention_system.h"
#include "kha/core/error.h"
#include "kha/core/parameter_table.h"

namespace kha {
namespace {

bool is_latent(const ModelConfig& config) {
  return static_cast<bool>(attention_declaration(config.attention, "").absorbed_context_flops);
}

at::Device device_of(const Parameters& parameters) {
  return parameters.entries().front().second.device();
}

std::map<std::string, std::unique_ptr<Attention>> attentions(const ModelConfig& config,
                                                             const Parameters& parameters) {
  std::map<std::string, std::unique_ptr<Attention>> by_form;
  const auto add = [&](const std::string& name, DecodeForm form) {
    by_form.emplace(name, make_attention(config, parameters, 0, KnockPlan::activation_space, form));
  };
  add("attend", DecodeForm::fewest_operations);
  if (!is_latent(config)) return by_form;
  add("absorbed", DecodeForm::absorbed);
  add("formed", DecodeForm::formed);
  return by_form;
}

// Keys and values [B, T, H, D + D_v] of latents [B, T, h_c, d_c], without maps.
at::Tensor formed(const ModelConfig& c, const at::Tensor& kv_b, const at::Tensor& latents) {
  const int64_t group = c.num_attention_heads / c.latent_heads;
  std::vector<at::Tensor> heads;
  for (int64_t j = 0; j < c.latent_heads; ++j) {
    const int64_t rows = kv_b.size(0) / c.latent_heads;
    heads.push_back(at::linear(latents.select(2, j), kv_b.narrow(0, j * rows, rows))
                        .view({latents.size(0), latents.size(1), group, -1}));
  }
  return at::cat(heads, 2);
}

}  // namespace

at::Tensor DecodeBench::some_input(int64_t batch, int64_t all, int64_t first, int64_t length,
                                   int64_t width) {
  const auto line = [](int64_t from, int64_t count) {
    return at::arange(from, from + count, at::kDouble);
  };
  const at::Tensor place =
      line(0, batch).view({-1, 1, 1}) * double(all) + line(first, length).view({-1, 1});
  return at::sin(1.7 * (place * double(width) + line(0, width)) + 0.3).to(at::kFloat);
}

DecodeBench::DecodeBench(const ModelConfig& config, const Parameters& parameters, int64_t batch,
                         int64_t positions, KvCacheKind kind)
    : config_(config),
      positions_(positions),
      kv_b_(parameters.find(attention_prefix(0) + "kv_b_proj.weight")),
      next_(some_input(batch, positions + 1, positions, 1, config.hidden_size)
                .to(device_of(parameters))),
      rotary_(rotary_table_of(config, positions + 1, at::kFloat, device_of(parameters))),
      by_form_(attentions(config, parameters)),
      cache_(config, batch, positions + 1, at::kFloat, device_of(parameters), kind) {
  const Attention& attention = *by_form_.at("attend");
  for (int64_t first = 0; first < positions; first += 512) {
    const int64_t length = std::min<int64_t>(512, positions - first);
    const at::Tensor x =
        some_input(batch, positions + 1, first, length, config.hidden_size).to(next_.device());
    cache_.append(0, attention.project(x, rotary_, first).entry);
    cache_.advance(length);
  }
  if (is_latent(config) && !config.knocks.any(1)) keep_heads();
}

std::vector<std::string> DecodeBench::forms() const {
  std::vector<std::string> names;
  for (const auto& [name, attention] : by_form_) names.push_back(name);
  if (keys_BHSD_.defined()) names.push_back("kept");
  return names;
}

void DecodeBench::check_form(const std::string& form) const {
  std::string known;
  for (const std::string& name : forms()) {
    if (name == form) return;
    known += (known.empty() ? "" : ", ") + name;
  }
  fail({.what = "attention `" + config_.attention + "` does not decode in this form",
        .where = "the form of a decode step",
        .expected = known,
        .found = form});
}

at::Tensor DecodeBench::step(const std::string& form) {
  check_form(form);
  if (form == "kept") return step_from_kept_heads();
  const Attention& attention = *by_form_.at(form);
  const Projected projected = attention.project(next_, rotary_, positions_);
  // Appended and not counted: the next step writes over it.
  return attention.aggregate(
      attention.attend(projected.queries_BTHD, cache_.append(0, projected.entry), nullptr));
}

int64_t DecodeBench::cache_bytes(const std::string& form) const {
  check_form(form);
  if (form != "kept") return cache_.bytes();
  return static_cast<int64_t>(keys_BHSD_.nbytes() + values_BHSD_.nbytes());
}

void DecodeBench::keep_heads() {
  const int64_t heads = config_.num_attention_heads, width = config_.head_dim;
  const CacheEntry entry =
      cache_.append(0, by_form_.at("attend")->project(next_, rotary_, positions_).entry);
  const at::Tensor kv = formed(config_, kv_b_, entry[0]);
  const at::Tensor keys =
      at::cat({kv.narrow(3, 0, width), entry[1].expand({-1, -1, heads, -1})}, 3);
  keys_BHSD_ = keys.transpose(1, 2).contiguous();
  values_BHSD_ = kv.narrow(3, width, kv.size(3) - width).transpose(1, 2).contiguous();
}

at::Tensor DecodeBench::step_from_kept_heads() const {
  const Attention& attention = *by_form_.at("attend");
  const int64_t width = config_.head_dim, heads = config_.num_attention_heads;
  const Projected p = attention.project(next_, rotary_, positions_);
  const at::Tensor kv = formed(config_, kv_b_, p.entry[0]).transpose(1, 2);  // [B, H, 1, ..]
  at::Tensor key = keys_BHSD_.narrow(2, positions_, 1),
             value = values_BHSD_.narrow(2, positions_, 1);
  key.narrow(3, 0, width).copy_(kv.narrow(3, 0, width));
  key.narrow(3, width, config_.rope_head_dim)
      .copy_(p.entry[1].transpose(1, 2).expand({-1, heads, -1, -1}));
  value.copy_(kv.narrow(3, width, kv.size(3) - width));
  const double scale = 1 / std::sqrt(width + config_.rope_head_dim);
  const at::Tensor scores =
      at::matmul(p.queries_BTHD.transpose(1, 2) * scale, keys_BHSD_.transpose(2, 3));
  const at::Tensor sums = at::matmul(at::softmax(scores, -1), values_BHSD_);
  return attention.aggregate(sums.transpose(1, 2));
}

}  // namespace kha
