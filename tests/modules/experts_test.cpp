// The mixture against the scalar reference: choice, weights, experts, every gradient; what it
// keeps, reads and leaves out.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "counting_allocator.h"
#include "kernels/finite_differences.h"
#include "kha/kernels/reference_experts.h"
#include "modules/experts/expert_groups.h"
#include "modules/experts/mixture.h"
#include "modules/experts/products_by_path.h"
#include "modules/experts/token_rows.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

template <class T>
std::vector<T> values_of(const at::Tensor& tensor) {
  const at::Tensor adjacent = tensor.detach().contiguous();
  return {adjacent.const_data_ptr<T>(), adjacent.const_data_ptr<T>() + adjacent.numel()};
}
Values doubles(const at::Tensor& tensor) { return values_of<double>(tensor.to(at::kDouble)); }

template <class T>
auto rows_of(std::vector<T>& values, int64_t width) {
  return adjacent_rows(values.data(), static_cast<int64_t>(values.size()) / width, width);
}

std::vector<int64_t> columns(const std::vector<double>& row, int64_t k) {
  return values_of<int64_t>(largest_columns(at::tensor(row, at::kDouble).unsqueeze(0), k));
}

TEST(LargestColumns, EqualValuesGoToTheLowerColumn) {
  EXPECT_EQ(columns({1, 3, 2}, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(columns({5, 5, 5, 5}, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(columns({1, 2, 2, 3, 2}, 3), (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(columns({-1, -2}, 2), (std::vector<int64_t>{0, 1}));
}

TEST(LargestColumns, WhatIsNoNumberIsChosenAndSeen) {
  EXPECT_EQ(columns({1, nan_value, 9, nan_value}, 3), (std::vector<int64_t>{1, 3, 2}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(columns({-infinity, infinity, nan_value}, 3), (std::vector<int64_t>{2, 1, 0}));
}

// Against torch's stable sort, which other devices use.
TEST(LargestColumns, AreThoseOfAStableSort) {
  const at::Tensor values = at::randint(0, 7, {300, 24}).to(at::kFloat);
  const at::Tensor sorted =
      std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/1, /*descending=*/true));
  for (const int64_t k : {1, 5, 24}) {
    EXPECT_TRUE(at::equal(largest_columns(values, k), sorted.narrow(1, 0, k))) << k;
  }
}

TEST(ByExpert, GroupsKeepTheOrderOfTheTokens) {
  const at::Tensor chosen = at::tensor(std::vector<int64_t>{3, 0, 0, 3, 1, 3}).view({3, 2});
  const Assignment a = by_expert(chosen, 4);
  EXPECT_EQ(a.begin, (std::vector<int64_t>{0, 2, 3, 3, 6}));
  EXPECT_EQ(values_of<int64_t>(a.tokens_M), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values_of<int64_t>(a.places_M), (std::vector<int64_t>{1, 2, 4, 0, 3, 5}));
  EXPECT_EQ(by_expert(chosen.narrow(0, 0, 0), 4).pairs(), 0);
}

constexpr int64_t d = 10, f = 6, experts = 7;

ExpertConfig config_of(const std::string& router) {
  return {.count = experts, .active = 3, .width = f, .router = router};
}

Parameters parameters_of(const ExpertConfig& c, at::ScalarType type = at::kDouble) {
  at::manual_seed(5);
  Parameters p;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    p.add(name, at::randn(shape, at::kDouble).to(type).requires_grad_());
  };
  add("gate.weight", {c.count, d});
  if (c.selection_bias())
    p.add("gate.e_score_correction_bias", at::randn({c.count}, at::kDouble).to(type) / 3);
  add("experts.gate_proj", {c.count, c.width, d});
  add("experts.up_proj", {c.count, c.width, d});
  add("experts.down_proj", {c.count, d, c.width});
  const int64_t shared = c.shared * c.width;
  if (shared == 0) return p;
  add("shared_experts.gate_proj.weight", {shared, d});
  add("shared_experts.up_proj.weight", {shared, d});
  add("shared_experts.down_proj.weight", {d, shared});
  return p;
}

Mixture mixture_of(const ExpertConfig& c, const Parameters& p,
                   std::shared_ptr<RouterRecord> record = nullptr) {
  return {c, p, "", 0, std::move(record)};
}

struct Expected {
  Values y, dx, drouter, dgate, dup, ddown;
  std::vector<int64_t> counts = std::vector<int64_t>(experts);
};

// The reference, step by step: logits, choice, experts, and back. `balance` and `z`: weights of
// the auxiliary losses.
Expected expected(const ExpertConfig& c, const Parameters& p, const at::Tensor& x_Nd,
                  const at::Tensor& grad_Nd, double balance = 0, double z = 0) {
  const int64_t tokens = x_Nd.size(0), k = c.active;
  Values x = doubles(x_Nd), grad = doubles(grad_Nd), workspace(256);
  Values logits = doubles(at::linear(x_Nd.to(at::kDouble), p.at("gate.weight").to(at::kDouble)));
  const at::Tensor bias_tensor = p.find("gate.e_score_correction_bias");
  const Values bias = bias_tensor.defined() ? doubles(bias_tensor) : Values{};
  const ref::RouterRule rule{.softmax = c.router == "softmax",
                             .bias = bias.empty() ? nullptr : bias.data(),
                             .normalise = c.normalise,
                             .scaling = c.scaling};
  std::vector<int64_t> chosen(tokens * k);
  Values weights(tokens * k), gate = doubles(p.at("experts.gate_proj")),
                              up = doubles(p.at("experts.up_proj")),
                              down = doubles(p.at("experts.down_proj"));
  Expected e{.y = Values(x.size()),
             .dx = Values(x.size()),
             .drouter = Values(experts * d),
             .dgate = Values(gate.size()),
             .dup = Values(up.size()),
             .ddown = Values(down.size())};
  ref::route(rows_of(logits, experts), rule, rows_of(chosen, k), rows_of(weights, k),
             workspace.data());
  for (const int64_t expert : chosen) ++e.counts[expert];
  const ref::Experts matrices{f, gate.data(), up.data(), down.data()};
  ref::experts(rows_of(x, d), rows_of(chosen, k), rows_of(weights, k), matrices, rows_of(e.y, d),
               workspace.data());
  Values dweights(weights.size()), dlogits(logits.size()), share;
  ref::experts_backward(rows_of(grad, d), rows_of(x, d), rows_of(chosen, k), rows_of(weights, k),
                        matrices, rows_of(e.dx, d), rows_of(dweights, k),
                        {experts, e.dgate.data(), e.dup.data(), e.ddown.data()}, workspace.data());
  ref::route_backward(rows_of(dweights, k), rows_of(logits, experts), rule, rows_of(chosen, k),
                      rows_of(dlogits, experts), workspace.data());
  for (const int64_t count : e.counts)
    share.push_back(static_cast<double>(count) / static_cast<double>(tokens * k));
  ref::add_balance_gradient(balance, rows_of(logits, experts), rule.softmax, share.data(),
                            rows_of(dlogits, experts), workspace.data());
  ref::add_router_z_gradient(z, rows_of(logits, experts), rows_of(dlogits, experts));
  Values router = doubles(p.at("gate.weight"));
  for (int64_t n = 0; n < tokens; ++n) {
    for (int64_t i = 0; i < experts; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        e.dx[n * d + j] += dlogits[n * experts + i] * router[i * d + j];
        e.drouter[i * d + j] += dlogits[n * experts + i] * x[n * d + j];
      }
    }
  }
  return e;
}

void expect_near(const at::Tensor& found, const Values& expected, double tolerance,
                 const std::string& name) {
  const Values values = doubles(found);
  ASSERT_EQ(values.size(), expected.size()) << name;
  double scale = 1, worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    scale = std::max(scale, std::abs(expected[i]));
    worst = std::max(worst, std::abs(values[i] - expected[i]));
  }
  EXPECT_LE(worst, tolerance * scale) << name;
}

void expect_reference(const ExpertConfig& c, at::ScalarType type, double tolerance) {
  const Parameters p = parameters_of(c, type);
  const at::Tensor x = at::randn({1, 9, d}, at::kDouble).to(type).requires_grad_();
  const at::Tensor grad = at::randn({1, 9, d}, at::kDouble).to(type);
  const at::Tensor y = mixture_of(c, p)(x);
  y.backward(grad);
  const Expected e = expected(c, p, x.detach().squeeze(0), grad.squeeze(0));
  EXPECT_EQ(y.scalar_type(), type);
  expect_near(y, e.y, tolerance, "y");
  expect_near(x.grad(), e.dx, tolerance, "dx");
  expect_near(p.at("gate.weight").grad(), e.drouter, tolerance, "router");
  expect_near(p.at("experts.gate_proj").grad(), e.dgate, tolerance, "gate");
  expect_near(p.at("experts.up_proj").grad(), e.dup, tolerance, "up");
  expect_near(p.at("experts.down_proj").grad(), e.ddown, tolerance, "down");
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(mixture_of(c, p)(x), y, 1e-6, 1e-6));
}

TEST(Mixture, EveryGradientIsTheReferences) {
  for (const std::string router : {"sigmoid", "softmax"}) {
    for (const bool normalise : {true, false}) {
      for (const int64_t active : {1, 3, 7}) {
        ExpertConfig c = config_of(router);
        c.normalise = normalise;
        c.active = active;
        c.scaling = 1.5;
        SCOPED_TRACE(router + (normalise ? " normalised " : " ") + std::to_string(active));
        expect_reference(c, at::kDouble, 1e-12);
        expect_reference(c, at::kFloat, 1e-5);
      }
    }
  }
}

// A router that always chooses the same two: the others' gradient is there, and is zero.
TEST(Mixture, ExpertsWithoutTokensHaveAGradientOfZero) {
  ExpertConfig c = config_of("sigmoid");
  c.active = 2;
  const Parameters p = parameters_of(c);
  const at::Tensor favour = at::zeros({experts}, at::kDouble);
  favour.narrow(0, 2, 2).fill_(10);
  at::Tensor(p.at("gate.e_score_correction_bias")).copy_(favour);
  mixture_of(c, p)(at::randn({1, 5, d}, at::kDouble)).sum().backward();
  for (int64_t e = 0; e < experts; ++e) {
    const double largest = p.at("experts.down_proj").grad()[e].abs().max().item<double>();
    EXPECT_EQ(largest > 0, e == 2 || e == 3) << e;
  }
}

TEST(Mixture, NoTokensAreNoExperts) {
  const ExpertConfig c = config_of("sigmoid");
  const Parameters p = parameters_of(c);
  const at::Tensor y = mixture_of(c, p)(at::zeros({0, 4, d}, at::kDouble));
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 4, d}));
}

// Shared experts are one wide feed-forward beside the chosen ones, without a weight.
TEST(Mixture, SharedExpertsAreAdded) {
  ExpertConfig c = config_of("softmax");
  c.shared = 2;
  const Parameters p = parameters_of(c);
  const at::Tensor x = at::randn({2, 4, d}, at::kDouble);
  ExpertConfig alone = c;
  alone.shared = 0;
  const at::Tensor shared =
      at::linear(at::silu(at::linear(x, p.at("shared_experts.gate_proj.weight"))) *
                     at::linear(x, p.at("shared_experts.up_proj.weight")),
                 p.at("shared_experts.down_proj.weight"));
  EXPECT_TRUE(at::allclose(mixture_of(c, p)(x), mixture_of(alone, p)(x) + shared, 1e-12, 1e-12));
}

TEST(Mixture, FrozenMatricesGetNoGradient) {
  const ExpertConfig c = config_of("sigmoid");
  for (const std::string frozen :
       {"experts.gate_proj", "experts.up_proj", "experts.down_proj", "gate.weight"}) {
    const Parameters p = parameters_of(c), whole = parameters_of(c);
    at::Tensor(p.at(frozen)).requires_grad_(false);
    const at::Tensor x = at::randn({1, 5, d}, at::kDouble);
    for (const Parameters* each : {&p, &whole}) mixture_of(c, *each)(x).sum().backward();
    for (const auto& [name, value] : p.entries()) {
      if (!whole.at(name).requires_grad()) continue;
      ASSERT_EQ(value.grad().defined(), name != frozen) << name << ", frozen " << frozen;
      if (name == frozen) continue;
      EXPECT_TRUE(at::equal(value.grad(), whole.at(name).grad())) << name << ", frozen " << frozen;
    }
  }
}

// bfloat16 rounds products, and chooses with a router in float32 all the same.
TEST(Mixture, NarrowTypesAreCloseAndChooseInFloat32) {
  const ExpertConfig c = config_of("sigmoid");
  const Parameters p = parameters_of(c, at::kFloat);
  const auto record = std::make_shared<RouterRecord>(1), narrow = std::make_shared<RouterRecord>(1);
  const at::Tensor x = at::randn({1, 200, d}).to(at::kBFloat16);
  const at::NoGradGuard no_grad;
  const at::Tensor wide = mixture_of(c, p, record)(x.to(at::kFloat));
  const Parameters cast = [&] {
    Parameters named;  // as a model names them
    for (const auto& [name, value] : p.entries()) named.add("model.layers.0.mlp." + name, value);
    return named.cast(at::kBFloat16);
  }();
  EXPECT_EQ(cast.at("model.layers.0.mlp.gate.weight").scalar_type(), at::kFloat);
  EXPECT_EQ(cast.at("model.layers.0.mlp.gate.e_score_correction_bias").scalar_type(), at::kFloat);
  EXPECT_EQ(cast.at("model.layers.0.mlp.experts.up_proj").scalar_type(), at::kBFloat16);
  const at::Tensor y = Mixture(c, cast, "model.layers.0.mlp.", 0, narrow)(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(record->counts[0], narrow->counts[0]));
  EXPECT_LT((y.to(at::kFloat) - wide).abs().max().item<double>(),
            0.03 * wide.abs().max().item<double>());
}

// The result and every gradient, with experts of which one has tokens enough to be alone.
TEST(Mixture, BitsDoNotDependOnThreads) {
  ExpertConfig c = config_of("sigmoid");
  const at::Tensor x = at::randn({1, lone_group + 200, d});
  const at::Tensor grad = at::randn(x.sizes());
  std::vector<std::vector<at::Tensor>> results;
  std::vector<int64_t> counts;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const Parameters p = parameters_of(c, at::kFloat);
    at::Tensor(p.at("gate.e_score_correction_bias"))[2].fill_(10);
    const auto record = std::make_shared<RouterRecord>(1);
    const at::Tensor own = x.clone().requires_grad_();
    const at::Tensor y = mixture_of(c, p, record)(own);
    y.backward(grad);
    results.push_back({y.detach(), own.grad()});
    for (const auto& [name, value] : p.entries()) {
      if (value.requires_grad()) results.back().push_back(value.grad());
    }
    counts = values_of<int64_t>(record->counts[0]);
  }
  at::set_num_threads(1);
  EXPECT_EQ(counts[2], lone_group + 200);
  ASSERT_EQ(results[0].size(), 6u);
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
  }
}

// The second backward pass adds to the tensor that the first one left, and takes no other of its
// size; an expert that has tokens in one pass alone keeps that pass's gradient.
TEST(Mixture, GradientsOfLeavesAddUpInPlace) {
  ExpertConfig c{.count = 40, .active = 2, .width = 32, .router = "softmax"};
  const at::Tensor x = at::randn({2, 8, d}, at::kDouble);
  const std::vector<std::string> names{"experts.gate_proj", "experts.up_proj", "experts.down_proj"};
  const Parameters both = parameters_of(c);
  std::vector<Parameters> each;
  std::vector<at::Tensor> first;
  int64_t peak = 0;
  for (int64_t pass = 0; pass < 2; ++pass) {
    each.push_back(parameters_of(c));
    mixture_of(c, each.back())(x.narrow(0, pass, 1)).sum().backward();
    const at::Tensor y = mixture_of(c, both)(x.narrow(0, pass, 1));
    peak = CountingAllocator::peak_of([&] { y.sum().backward(); });
    for (const auto& name : names) first.push_back(both.at(name).grad());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const at::Tensor sum = both.at(names[i]).grad();
    EXPECT_EQ(sum.data_ptr(), first[i].data_ptr()) << names[i];
    EXPECT_TRUE(
        at::allclose(sum, each[0].at(names[i]).grad() + each[1].at(names[i]).grad(), 1e-13, 1e-13))
        << names[i];
    EXPECT_LT(peak, static_cast<int64_t>(sum.nbytes())) << names[i];
  }
}

// torch's grouped product, where torch has it on the CPU too; with experts without tokens.
TEST(GroupedProducts, AreThoseOfTheSharedExperts) {
  at::manual_seed(7);
  const int64_t n = 21, k = 3, e = 9, wide = 16, inner = 8;
  const auto leaf = [](std::vector<int64_t> shape) { return at::randn(shape).requires_grad_(); };
  const at::Tensor x = leaf({1, n, wide}), weights = leaf({n, k}), grad = at::randn({1, n, wide});
  const ExpertMatrices m{leaf({e, inner, wide}), leaf({e, inner, wide}), leaf({e, wide, inner})};
  const at::Tensor chosen = at::stack(
      {at::zeros({n}, at::kLong), at::arange(n).remainder(4).add(1), at::full({n}, 7, at::kLong)},
      1);
  const Assignment a = by_expert(chosen, e);
  std::vector<std::vector<at::Tensor>> results;
  for (const ProductPath path : {ProductPath::shared, ProductPath::grouped}) {
    const std::vector<at::Tensor> leaves{x, weights, m.gate_Efd, m.up_Efd, m.down_Edf};
    for (const at::Tensor& each : leaves) each.mutable_grad() = at::Tensor();
    const at::Tensor y = expert_products(x, weights, a, m, path);
    y.backward(grad);
    results.push_back({y.detach()});
    for (const at::Tensor& each : leaves) results.back().push_back(each.grad());
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(expert_products(x, weights, a, m, path), y));
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::allclose(results[1][i], results[0][i], 1e-5, 1e-5)) << i;
  }
  EXPECT_EQ(results[1][3][8].abs().max().item<float>(), 0);
}

TEST(GroupedProducts, AreChosenForBfloat16OnCuda) {
  const auto chosen = [](c10::DeviceType device, at::ScalarType type, int64_t hidden, int64_t f) {
    return choose_product_path({device, type, hidden, f});
  };
  EXPECT_EQ(chosen(at::kCPU, at::kFloat, 512, 384), ProductPath::shared);
  EXPECT_EQ(chosen(at::kCPU, at::kBFloat16, 512, 384), ProductPath::shared);
  EXPECT_EQ(chosen(at::kCUDA, at::kBFloat16, 512, 384), ProductPath::grouped);
  EXPECT_EQ(chosen(at::kCUDA, at::kFloat, 512, 384), ProductPath::in_turn);
  EXPECT_EQ(chosen(at::kCUDA, at::kBFloat16, 514, 384), ProductPath::in_turn);
  EXPECT_EQ(chosen(at::kCUDA, at::kBFloat16, 512, 388), ProductPath::in_turn);
  EXPECT_EQ(to_string(ProductPath::grouped), "aten::_grouped_mm");
}

TEST(Groups, EachIsMadeOnceByAThreadOfItsOwn) {
  const int64_t pairs = lone_group + 40;
  at::Tensor chosen = at::arange(pairs).remainder(10).add(1);  // of 12 experts, not 0 and not 11
  chosen.narrow(0, 40, lone_group).fill_(5);
  const Assignment a = by_expert(chosen.unsqueeze(1), 12);
  at::set_num_threads(3);
  const at::NoGradGuard no_grad;  // every thread has it
  for (const bool on_cpu : {true, false}) {
    std::mutex mutex;
    std::map<int64_t, Group> seen;
    for_each_group(a, on_cpu, [&](const Group& group) {
      EXPECT_EQ(at::in_parallel_region(), on_cpu && group.count < lone_group) << group.expert;
      EXPECT_FALSE(at::GradMode::is_enabled());
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(seen.emplace(group.place, group).second);
    });
    ASSERT_EQ(seen.size(), 10u);
    for (const auto& [place, group] : seen) {
      EXPECT_EQ(group.expert, place + 1);
      EXPECT_EQ(group.begin, a.begin[group.expert]);
      EXPECT_EQ(group.count, a.count(group.expert));
    }
  }
  at::set_num_threads(1);
}

// (1 + 2^-24) + 2^-24 is 1 in float32, 1 + (2^-24 + 2^-24) is not: the sum tells its order.
TEST(TokenSum, IsInTheOrderOfThePlaces) {
  const float small = std::ldexp(1.0f, -24);
  const std::vector<float> rows{small, small, 1};
  const at::Tensor token = at::zeros({1}, at::kLong);
  for (const std::vector<int64_t>& calls : {std::vector<int64_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    TokenSum sum(at::empty({2, 1}));
    for (const int64_t place : calls) sum.add(place, token, at::full({1, 1}, rows[place]));
    EXPECT_EQ(values_of<float>(sum.result()), (std::vector<float>{small + small + 1, 0}));
    EXPECT_NE(small + small + 1, 1.0f + small + small);
  }
}

// The losses beside the step's own reach router and input, and nothing else.
TEST(RouterRecord, AuxiliaryGradientsAreTheReferences) {
  for (const std::string router : {"sigmoid", "softmax"}) {
    const ExpertConfig c = config_of(router);
    const Parameters p = parameters_of(c);
    const auto record = std::make_shared<RouterRecord>(1);
    const int64_t tokens = 8;
    record->balance = 0.3 / tokens;
    record->z = 0.2 / tokens;
    const at::Tensor x = at::randn({2, 4, d}, at::kDouble).requires_grad_();
    const at::Tensor grad = at::randn({2, 4, d}, at::kDouble);
    mixture_of(c, p, record)(x).backward(grad);
    const Expected e = expected(c, p, x.detach().flatten(0, 1), grad.flatten(0, 1), 0.3, 0.2);
    expect_near(x.grad(), e.dx, 1e-12, "dx, " + router);
    expect_near(p.at("gate.weight").grad(), e.drouter, 1e-12, "router, " + router);
    expect_near(p.at("experts.up_proj").grad(), e.dup, 1e-12, "up, " + router);
    EXPECT_EQ(values_of<int64_t>(record->counts[0]), e.counts);
  }
}

// Padding is neither counted nor pushed.
TEST(RouterRecord, PaddingCountsNowhere) {
  const ExpertConfig c = config_of("softmax");
  const at::Tensor x = at::randn({1, 6, d}, at::kDouble);
  std::vector<at::Tensor> gradients;
  std::vector<std::vector<int64_t>> counts;
  for (const bool padded : {true, false}) {
    const Parameters p = parameters_of(c);
    const auto record = std::make_shared<RouterRecord>(1);
    record->balance = record->z = 0.1;
    if (padded) record->text_N = at::arange(6) < 4;
    const at::Tensor own = padded ? x : x.narrow(1, 0, 4);
    mixture_of(c, p, record)(own).backward(at::zeros_like(own));
    gradients.push_back(p.at("gate.weight").grad());
    counts.push_back(values_of<int64_t>(record->counts[0]));
  }
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_TRUE(at::allclose(gradients[0], gradients[1], 1e-12, 1e-14));
}

// A token costs its own experts' matrices: one that is not read may even be no number at all.
TEST(Mixture, UnchosenExpertsAreNotRead) {
  ExpertConfig c = config_of("sigmoid");
  c.active = 1;
  const Parameters p = parameters_of(c, at::kFloat);
  const auto record = std::make_shared<RouterRecord>(1);
  const at::Tensor x = at::randn({1, 1, d});
  const at::NoGradGuard no_grad;
  const at::Tensor y = mixture_of(c, p, record)(x);
  for (const char* name : {"experts.gate_proj", "experts.up_proj", "experts.down_proj"}) {
    const at::Tensor unused = record->counts[0].eq(0).view({experts, 1, 1});
    at::Tensor(p.at(name)).masked_fill_(unused, nan_value);
  }
  EXPECT_TRUE(at::equal(mixture_of(c, p)(x), y));
}

// Between forward and backward: gate and up of every pair, and the input; nothing of size M x d.
TEST(Mixture, KeepsTwoProductsOfEachPair) {
  const ExpertConfig c{.count = 4, .active = 2, .width = 64, .router = "sigmoid"};
  const Parameters p = parameters_of(c, at::kFloat);
  const at::Tensor x = at::randn({1, 2048, d});
  int64_t kept = 0;
  CountingAllocator::peak_of([&] {
    const at::Tensor y = mixture_of(c, p)(x);
    kept = CountingAllocator::live;
  });
  const int64_t pairs = 2048 * 2;
  const int64_t products = pairs * 2 * 64 * 4;
  EXPECT_GE(kept, products);
  // Beside them the result, logits, choice, weights, and the order of the pairs.
  EXPECT_LE(kept, products + 2048 * (d + 2 * 4 + 8) * 4 + pairs * 40);
}

}  // namespace
}  // namespace kha::test
