// The choice of experts within groups (DeepSeek, arXiv 2412.19437, section 2.1.2; of a softmax
// router arXiv 2405.04434, section 2.2.2), against the rule written out in plain loops.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "modules/experts/router.h"

namespace kha::test {
namespace {

using Row = std::vector<double>;

constexpr int64_t d = 10, tokens = 60;

Row row_of(const at::Tensor& tensor) {
  const at::Tensor adjacent = tensor.to(at::kDouble).contiguous();
  return {adjacent.const_data_ptr<double>(), adjacent.const_data_ptr<double>() + adjacent.numel()};
}

Row scores_of(const Row& logits, bool softmax) {
  Row scores;
  double sum = 0;
  for (const double z : logits) sum += std::exp(z);
  for (const double z : logits)
    scores.push_back(softmax ? std::exp(z) / sum : 1 / (1 + std::exp(-z)));
  return scores;
}

// The places of the largest values, the largest first.
std::vector<int64_t> best(const Row& values, int64_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

std::vector<int64_t> chosen_by_rule(const Row& order, const ExpertConfig& c) {
  const int64_t size = c.count / c.groups;
  Row of_group;
  for (int64_t group = 0; group < c.groups; ++group) {
    Row own(order.begin() + group * size, order.begin() + (group + 1) * size);
    std::sort(own.rbegin(), own.rend());
    of_group.push_back(c.router == "softmax" ? own[0] : own[0] + own[1]);
  }
  Row open(order.size(), -INFINITY);
  for (const int64_t group : best(of_group, c.open_groups))
    std::copy_n(order.begin() + group * size, size, open.begin() + group * size);
  return best(open, c.active);
}

struct Case {
  ExpertConfig config;
  Parameters parameters;
  at::Tensor x = at::randn({tokens, d}, at::kDouble);

  explicit Case(ExpertConfig c) : config(std::move(c)) {
    parameters.add("gate.weight", at::randn({config.count, d}, at::kDouble).requires_grad_());
    if (config.selection_bias()) {
      // Negative throughout: a closed expert must not win by a score of zero.
      parameters.add("gate.e_score_correction_bias",
                     at::randn({config.count}, at::kDouble) / 3 - 3);
    }
  }
  Routing route() const { return Router(config, parameters, "", 0, nullptr)(x); }
  // How many tokens would choose otherwise without groups.
  int64_t changed() const {
    Case free = *this;
    free.config.groups = free.config.open_groups = 1;
    return route().chosen_Nk.ne(free.route().chosen_Nk).any(1).sum().item<int64_t>();
  }
};

void expect_rule(const Case& c) {
  const at::NoGradGuard no_grad;
  const Routing found = c.route();
  const at::Tensor bias = c.parameters.find("gate.e_score_correction_bias");
  for (int64_t n = 0; n < tokens; ++n) {
    const Row scores = scores_of(row_of(at::mv(c.parameters.at("gate.weight"), c.x[n])),
                                 c.config.router == "softmax");
    Row order = scores;
    for (size_t i = 0; bias.defined() && i < order.size(); ++i) order[i] += row_of(bias)[i];
    const auto expected = chosen_by_rule(order, c.config);
    double sum = 0;
    for (const int64_t expert : expected) sum += scores[expert];
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      EXPECT_EQ(found.chosen_Nk[n][at].item<int64_t>(), expected[i]) << n;
      const double weight = scores[expected[i]] * c.config.scaling;
      EXPECT_NEAR(found.weights_Nk[n][at].item<double>(),
                  c.config.normalise ? weight / sum : weight, 1e-12)
          << n;
    }
  }
}

TEST(RouterGroups, TheChoiceIsTheRules) {
  at::manual_seed(3);
  for (const std::string router : {"sigmoid", "softmax"}) {
    for (const auto& [count, groups, open] :
         {std::tuple<int64_t, int64_t, int64_t>{12, 4, 2}, {12, 6, 3}, {8, 2, 1}, {12, 3, 3}}) {
      const Case c({.count = count,
                    .active = 3,
                    .width = 4,
                    .router = router,
                    .normalise = router == "sigmoid",
                    .scaling = 2.5,
                    .groups = groups,
                    .open_groups = open});
      SCOPED_TRACE(router + " " + std::to_string(groups) + " groups, " + std::to_string(open));
      expect_rule(c);
      // The best experts by softmax lie in as many of the best groups as there are of them.
      const bool closing =
          open < (router == "softmax" ? std::min(groups, c.config.active) : groups);
      EXPECT_EQ(c.changed() > 5, closing);
    }
  }
}

}  // namespace
}  // namespace kha::test
