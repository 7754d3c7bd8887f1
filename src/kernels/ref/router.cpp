// Router: scores, choice, weights, and the losses that keep its load even and its logits small.
#include "kernels/ref/products.h"
#include "kha/kernels/reference_experts.h"

namespace kha::reference {
namespace {

double log_sum_exp(const double* z, std::int64_t count) {
  double largest = z[0], sum = 0.0;
  for (std::int64_t i = 1; i < count; ++i) largest = z[i] > largest ? z[i] : largest;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(z[i] - largest);
  return largest + std::log(sum);
}

void scores_of(const double* z, std::int64_t count, bool softmax, double* scores) {
  const double shift = softmax ? log_sum_exp(z, count) : 0.0;
  for (std::int64_t i = 0; i < count; ++i)
    scores[i] = softmax ? std::exp(z[i] - shift) : sigmoid(z[i]);
}

// dz += the gradient of the logits for that of the scores.
void add_through_scores(const double* dscores, const double* scores, std::int64_t count,
                        bool softmax, double* dz) {
  double mean = 0.0;
  for (std::int64_t i = 0; i < count; ++i) mean += dscores[i] * scores[i];
  for (std::int64_t i = 0; i < count; ++i) {
    dz[i] += softmax ? scores[i] * (dscores[i] - mean) : dscores[i] * scores[i] * (1.0 - scores[i]);
  }
}

bool is_chosen(const std::int64_t* chosen, std::int64_t count, std::int64_t expert) {
  for (std::int64_t j = 0; j < count; ++j) {
    if (chosen[j] == expert) return true;
  }
  return false;
}

void choose(const double* scores, const double* bias, std::int64_t experts, std::int64_t* chosen,
            std::int64_t k) {
  const auto value = [&](std::int64_t e) { return scores[e] + (bias ? bias[e] : 0.0); };
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (is_chosen(chosen, j, e)) continue;
      if (best < 0 || value(e) > value(best)) best = e;
    }
    chosen[j] = best;
  }
}

double sum_of_chosen(const double* scores, const std::int64_t* chosen, std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < k; ++j) sum += scores[chosen[j]];
  return sum;
}

}  // namespace

void route(Rows<const double> logits, const RouterRule& rule, Rows<std::int64_t> chosen,
           Rows<double> weights, double* scores) {
  for (std::int64_t n = 0; n < logits.count; ++n) {
    scores_of(logits[n], logits.width, rule.softmax, scores);
    choose(scores, rule.bias, logits.width, chosen[n], chosen.width);
    const double sum = rule.normalise ? sum_of_chosen(scores, chosen[n], chosen.width) : 1.0;
    for (std::int64_t j = 0; j < chosen.width; ++j) {
      weights[n][j] = rule.scaling * scores[chosen[n][j]] / sum;
    }
  }
}

void route_backward(Rows<const double> grad, Rows<const double> logits, const RouterRule& rule,
                    Rows<const std::int64_t> chosen, Rows<double> dlogits, double* workspace) {
  double *scores = workspace, *dscores = workspace + logits.width;
  for (std::int64_t n = 0; n < logits.count; ++n) {
    scores_of(logits[n], logits.width, rule.softmax, scores);
    const double sum = rule.normalise ? sum_of_chosen(scores, chosen[n], chosen.width) : 1.0;
    double spread = 0.0;
    for (std::int64_t j = 0; j < chosen.width && rule.normalise; ++j) {
      spread += grad[n][j] * scores[chosen[n][j]] / sum;
    }
    set_zero(dscores, logits.width);
    for (std::int64_t j = 0; j < chosen.width; ++j) {
      dscores[chosen[n][j]] = rule.scaling * (grad[n][j] - spread) / sum;
    }
    set_zero(dlogits[n], logits.width);
    add_through_scores(dscores, scores, logits.width, rule.softmax, dlogits[n]);
  }
}

double balance_loss(Rows<const double> logits, bool softmax, const double* share, double* scores) {
  double loss = 0.0;
  for (std::int64_t n = 0; n < logits.count; ++n) {
    scores_of(logits[n], logits.width, softmax, scores);
    double sum = 0.0, weighed = 0.0;
    for (std::int64_t e = 0; e < logits.width; ++e) sum += scores[e];
    for (std::int64_t e = 0; e < logits.width; ++e) weighed += share[e] * scores[e] / sum;
    loss += weighed;
  }
  return loss * static_cast<double>(logits.width) / static_cast<double>(logits.count);
}

void add_balance_gradient(double weight, Rows<const double> logits, bool softmax,
                          const double* share, Rows<double> dlogits, double* workspace) {
  double *scores = workspace, *dscores = workspace + logits.width;
  const double factor =
      weight * static_cast<double>(logits.width) / static_cast<double>(logits.count);
  for (std::int64_t n = 0; n < logits.count; ++n) {
    scores_of(logits[n], logits.width, softmax, scores);
    double sum = 0.0, weighed = 0.0;
    for (std::int64_t e = 0; e < logits.width; ++e) sum += scores[e];
    for (std::int64_t e = 0; e < logits.width; ++e) weighed += share[e] * scores[e] / sum;
    for (std::int64_t e = 0; e < logits.width; ++e) {
      dscores[e] = factor * (share[e] - weighed) / sum;
    }
    add_through_scores(dscores, scores, logits.width, softmax, dlogits[n]);
  }
}

double router_z_loss(Rows<const double> logits) {
  double loss = 0.0;
  for (std::int64_t n = 0; n < logits.count; ++n) {
    const double log_sum = log_sum_exp(logits[n], logits.width);
    loss += log_sum * log_sum;
  }
  return loss / static_cast<double>(logits.count);
}

void add_router_z_gradient(double weight, Rows<const double> logits, Rows<double> dlogits) {
  for (std::int64_t n = 0; n < logits.count; ++n) {
    const double log_sum = log_sum_exp(logits[n], logits.width);
    const double factor = weight * 2.0 * log_sum / static_cast<double>(logits.count);
    for (std::int64_t e = 0; e < logits.width; ++e) {
      dlogits[n][e] += factor * std::exp(logits[n][e] - log_sum);
    }
  }
}

}  // namespace kha::reference
