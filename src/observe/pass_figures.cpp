#include "observe/pass_figures.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "kha/core/parameter_table.h"
#include "model/decoder.h"
#include "modules/causal.h"
#include "modules/experts/router.h"
#include "modules/pass_tap.h"
#include "observe/watched_positions.h"

namespace kha {
namespace {

using at::Tensor;

std::vector<double> values_of(const Tensor& x) {
  const Tensor adjacent = x.to(at::kCPU, at::kDouble).contiguous();
  const auto* first = adjacent.const_data_ptr<double>();
  return {first, first + adjacent.numel()};
}

// Sum of -p ln p over the last dimension; a share of zero adds nothing.
Tensor entropy_of(const Tensor& shares) { return -at::xlogy(shares, shares).sum(-1); }

// logits: [B, H, T, T], scaled. Padding stands behind the text, so no query of the text sees it.
AttentionFigures figures_of_logits(const Tensor& logits, const Tensor& positions) {
  const Tensor mask = causal_mask(logits.size(2), logits.size(3), nullptr, logits.device());
  const Tensor seen = mask.defined() ? logits.masked_fill(mask.logical_not(),
                                                          -std::numeric_limits<double>::infinity())
                                     : logits;
  const auto by_head = [&](const Tensor& of_query_BHT) {  // -> [H, N]
    return of_query_BHT.transpose(0, 1).flatten(1).index_select(1, positions);
  };
  return {.largest_logit = values_of(by_head(seen.amax({3})).amax({1})),
          .entropy = values_of(by_head(entropy_of(seen.softmax(-1))).mean({1}))};
}

// [B, H, T, S]; query head h reads key head floor(h / (H / H_kv)).
Tensor scaled_products(const Tensor& queries_BTHD, const Tensor& keys_BSHD) {
  const Tensor q = queries_BTHD.to(at::kDouble).transpose(1, 2);
  const Tensor k =
      keys_BSHD.to(at::kDouble).transpose(1, 2).repeat_interleave(q.size(1) / keys_BSHD.size(2), 1);
  return q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
}

// The scores as router.cpp makes them, from its weight in double.
RouterFigures figures_of_router(const ModelConfig& c, const Parameters& parameters, int64_t layer,
                                const Tensor& x_Nd) {
  const std::string prefix = feed_forward_prefix(layer) + "gate.";
  const Tensor logits = x_Nd.matmul(parameters.at(prefix + "weight").to(at::kDouble).t());
  const Tensor scores = c.experts.router == "softmax" ? logits.softmax(1) : logits.sigmoid();
  const Tensor bias = parameters.find(prefix + "e_score_correction_bias");
  Tensor wish = bias.defined() ? scores + bias.to(at::kDouble) : scores;
  if (c.experts.groups > 1) wish = within_groups(wish, c.experts);
  const Tensor chosen = std::get<1>(wish.topk(c.experts.active, 1));
  const Tensor sums = scores.gather(1, chosen).sum(1);
  const double most_even = std::log(static_cast<double>(std::max<int64_t>(2, c.experts.count)));
  RouterFigures f{
      .layer = layer,
      .logit_size = logits.square().mean().sqrt().item<double>(),
      .score_entropy = entropy_of(scores / scores.sum(1, true)).mean().item<double>() / most_even,
      .weight_sum_mean = sums.mean().item<double>(),
      .weight_sum_low = at::quantile(sums, 0.01).item<double>()};
  if (!bias.defined()) return f;
  f.bias_least = bias.min().item<double>();
  f.bias_mean = bias.to(at::kDouble).mean().item<double>();
  f.bias_most = bias.max().item<double>();
  return f;
}

}  // namespace

PassFigures pass_figures(const ModelConfig& config, const Parameters& parameters,
                         const Batch& batch) {
  const at::NoGradGuard no_grad;
  const at::Device device = parameters.at("model.embed_tokens.weight").device();
  const Tensor positions = text_positions_of(batch).to(device);
  PassFigures figures;
  const PassTap tap{
      .routed =
          [&](int64_t layer, const Tensor& x_BTd) {
            const Tensor x_Nd = x_BTd.flatten(0, 1).index_select(0, positions).to(at::kDouble);
            figures.routers.push_back(figures_of_router(config, parameters, layer, x_Nd));
          },
      .attended =
          [&](const Tensor& q, const Tensor& k) {
            figures.attention.push_back(figures_of_logits(scaled_products(q, k), positions));
          },
      .weighed =
          [&](const Tensor& logits, double scale) {
            figures.attention.push_back(
                figures_of_logits(logits.to(at::kDouble) * scale, positions));
          }};
  const Decoder decoder(config, parameters, KnockPlan::activation_space, batch.context);
  const PassTapScope scope(tap);
  decoder.hidden(ids_of(batch).to(device));
  return figures;
}

double evenness(const std::vector<double>& shares) {
  if (shares.size() < 2) return 1;
  double entropy = 0;
  for (const double share : shares) entropy -= share > 0 ? share * std::log(share) : 0;
  return entropy / std::log(static_cast<double>(shares.size()));
}

}  // namespace kha
