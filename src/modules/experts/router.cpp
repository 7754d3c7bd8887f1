#include "modules/experts/router.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "modules/experts/selection.h"

namespace kha {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Keeps the sum of scores that are all zero from dividing by it, as transformers does.
constexpr double smallest_sum = 1e-20;

// The asked gradients of one layer, as numbers: the record may be gone before backward.
struct Auxiliary {
  double balance = 0, z = 0;
  Tensor share_E, text_N;

  bool any() const { return balance != 0 || z != 0; }
};

Tensor scores_of(const Tensor& logits, bool softmax) {
  return softmax ? logits.softmax(1) : logits.sigmoid();
}

// From the gradient of the scores to that of the logits.
Tensor through_scores(const Tensor& grad, const Tensor& scores, bool softmax) {
  if (softmax) return scores * (grad - (grad * scores).sum(1, /*keepdim=*/true));
  return grad * scores * (1 - scores);
}

class RouterWeights : public torch::autograd::Function<RouterWeights> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& chosen,
                        bool softmax, bool normalise, double scaling, const Auxiliary& auxiliary) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({logits, chosen});
    context->saved_data["softmax"] = softmax;
    context->saved_data["normalise"] = normalise;
    context->saved_data["scaling"] = scaling;
    context->saved_data["balance"] = auxiliary.balance;
    context->saved_data["z"] = auxiliary.z;
    if (auxiliary.share_E.defined()) context->saved_data["share"] = auxiliary.share_E;
    if (auxiliary.text_N.defined()) context->saved_data["text"] = auxiliary.text_N;
    return weights(scores_of(logits, softmax).gather(1, chosen), normalise, scaling);
  }

  static Tensor weights(const Tensor& chosen_scores, bool normalise, double scaling) {
    if (!normalise) return chosen_scores * scaling;
    return chosen_scores * (scaling / (chosen_scores.sum(1, /*keepdim=*/true) + smallest_sum));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &logits = saved[0], &chosen = saved[1];
    const bool softmax = context->saved_data["softmax"].toBool();
    const Tensor scores = scores_of(logits, softmax);
    Tensor grad = at::zeros_like(scores);
    if (grads[0].defined()) grad.scatter_(1, chosen, score_gradient(context, grads[0], scores));
    add_balance(context, scores, softmax, grad);
    grad = through_scores(grad, scores, softmax);
    add_z(context, logits, grad);
    return {grad, {}, {}, {}, {}, {}};
  }

 private:
  // Of the chosen scores, [N, k].
  static Tensor score_gradient(AutogradContext* context, const Tensor& grad, const Tensor& scores) {
    const double scaling = context->saved_data["scaling"].toDouble();
    if (!context->saved_data["normalise"].toBool()) return grad * scaling;
    const Tensor own = scores.gather(1, context->get_saved_variables()[1]);
    const Tensor sum = own.sum(1, /*keepdim=*/true) + smallest_sum;
    const Tensor spread = (grad * own).sum(1, /*keepdim=*/true) / sum;
    return (grad - spread) * (scaling / sum);
  }

  static Tensor per_token(AutogradContext* context, double weight, const Tensor& like) {
    const auto text = context->saved_data.find("text");
    const Tensor ones = text == context->saved_data.end()
                            ? at::ones({like.size(0), 1}, like.options())
                            : text->second.toTensor().unsqueeze(1).to(like.scalar_type());
    return ones * weight;
  }

  // E sum_i f_i mean(q_i) with q the scores as shares of their sum and f the load, which is a
  // constant: 1 where the load is even (arXiv 2101.03961, eq. 4; of several experts a token 2412.
  // 19437, eq. 17).
  static void add_balance(AutogradContext* context, const Tensor& scores, bool softmax,
                          Tensor& grad) {
    const double weight = context->saved_data["balance"].toDouble();
    if (weight == 0) return;
    const Tensor share =
        context->saved_data["share"].toTensor().to(scores.device(), scores.scalar_type());
    const Tensor slope =
        share * static_cast<double>(scores.size(1)) * per_token(context, weight, scores);
    if (softmax) {
      grad += slope;
      return;
    }
    const Tensor sum = scores.sum(1, /*keepdim=*/true) + smallest_sum;
    grad += (slope - (slope * scores).sum(1, /*keepdim=*/true) / sum) / sum;
  }

  // mean((log sum e^z)^2) (arXiv 2202.08906, eq. 5).
  static void add_z(AutogradContext* context, const Tensor& logits, Tensor& grad) {
    const double weight = context->saved_data["z"].toDouble();
    if (weight == 0) return;
    const Tensor log_sum = logits.logsumexp(1, /*keepdim=*/true);
    grad += per_token(context, 2 * weight, logits) * log_sum * logits.softmax(1);
  }
};

}  // namespace

Tensor within_groups(const Tensor& scores, const ExpertConfig& e) {
  const Tensor grouped = scores.unflatten(1, {e.groups, e.count / e.groups});
  const Tensor best =
      e.router == "softmax" ? std::get<0>(grouped.max(2)) : std::get<0>(grouped.topk(2, 2)).sum(2);
  const Tensor closed = at::ones_like(best, at::kBool)
                            .scatter(1, largest_columns(best, e.open_groups), false)
                            .unsqueeze(2);
  return grouped.masked_fill(closed, -std::numeric_limits<double>::infinity()).flatten(1);
}

namespace {

Tensor counts_of(const Tensor& chosen, const Tensor& text, int64_t experts) {
  const Tensor counted = text.defined() ? chosen.index({text}) : chosen;
  return at::bincount(counted.flatten().to(at::kCPU), {}, experts);
}

// Writes the counts into the record, and takes from it what backward adds.
Auxiliary ask(RouterRecord& record, int64_t layer, const Tensor& chosen, const Tensor& logits) {
  const Tensor counts = counts_of(chosen, record.text_N, logits.size(1));
  record.counts[layer] = counts;
  Auxiliary auxiliary{record.balance, record.z, record.share[layer], record.text_N};
  if (auxiliary.balance == 0) return auxiliary;
  if (!auxiliary.share_E.defined()) {
    auxiliary.share_E = counts.to(at::kDouble) / std::max<int64_t>(counts.sum().item<int64_t>(), 1);
  }
  return auxiliary;
}

}  // namespace

Router::Router(const ExpertConfig& config, const Parameters& parameters, const std::string& prefix,
               int64_t layer, std::shared_ptr<RouterRecord> record)
    : config_(config),
      weight_Ed_(parameters.at(prefix + "gate.weight")),
      bias_E_(parameters.find(prefix + "gate.e_score_correction_bias")),
      layer_(layer),
      record_(std::move(record)) {}

Routing Router::operator()(const Tensor& x) const {
  RECORD_USER_SCOPE("kha/router");
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor logits = at::linear(x.to(type), weight_Ed_.to(type));
  const bool softmax = config_.router == "softmax";
  const Tensor seen = logits.detach();
  // Softmax keeps the order of the logits, and so of the groups' largest.
  Tensor order = bias_E_.defined() ? scores_of(seen, softmax) + bias_E_.detach() : seen;
  if (config_.groups > 1) order = within_groups(order, config_);
  const Tensor chosen = largest_columns(order, config_.active);
  const Auxiliary auxiliary = record_ ? ask(*record_, layer_, chosen, seen) : Auxiliary{};
  return {chosen, RouterWeights::apply(logits, chosen, softmax, config_.normalise, config_.scaling,
                                       auxiliary)};
}

}  // namespace kha
