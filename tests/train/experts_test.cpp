// A step of a mixture: its gradient does not depend on how the batch is cut, and after it the
// selection biases follow the load of all of it.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "model/initialise.h"
#include "model/parameter_layout.h"
#include "train/balance.h"
#include "train/gradient.h"
#include "train/optimizer.h"

namespace kha {
namespace {

ModelConfig mixture(const std::string& router) {
  ModelConfig c;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.initializer_range = 0.3;
  c.knocks.all.v = KnockKind::mlp;
  c.experts = {.count = 6, .active = 2, .width = 8, .shared = 1, .first_dense = 1};
  c.experts.router = router;
  return c;
}

// Rows first, first + 1, …; row r counts its first r + 2 targets, and rows 3 and 5 end in padding.
Batch batch_of(int64_t first, int64_t rows) {
  constexpr int64_t context = 10;
  Batch b;
  b.rows = rows;
  b.context = context;
  for (int64_t row = first; row < first + rows; ++row) {
    const int64_t text = row == 3 || row == 5 ? 6 : context;
    for (int64_t t = 0; t < context; ++t) {
      b.inputs.push_back((31 * row * row + 7 * t * t) % 256);
      b.targets.push_back((31 * row * row + 7 * (t + 1) * (t + 1)) % 256);
      b.counted.push_back(t < std::min(row + 2, text));
      b.counted_targets += b.counted.back();
      b.documents.push_back(t < text ? 0 : -1);
      b.segments.push_back(t < text ? 0 : -1);
      b.positions.push_back(t);
    }
  }
  return b;
}

// The same eight rows in micro-batches of so many.
std::vector<Batch> cut(int64_t rows) {
  std::vector<Batch> batches;
  for (int64_t first = 0; first < 8; first += rows) batches.push_back(batch_of(first, rows));
  return batches;
}

struct Step {
  double loss = 0;
  std::vector<std::pair<std::string, at::Tensor>> gradients = {};
  ExpertCounts counts = {};
};

Step step_of(const std::string& router, int64_t rows, const AuxiliaryLosses& losses,
             Recompute recompute = Recompute::none) {
  const ModelConfig config = mixture(router);
  const Parameters parameters = initialise(config, KnockStart::identity, 3).cast(at::kDouble);
  for (const auto& spec : memory_table(config)) {
    at::Tensor(parameters.at(spec.name)).requires_grad_(spec.trained);
  }
  Step step;
  step.loss =
      accumulate_gradient(config, parameters, cut(rows), {},
                          {.dtype = at::kDouble, .recompute = recompute}, losses, &step.counts);
  for (const auto& [name, value] : parameters.entries()) {
    if (value.requires_grad()) step.gradients.emplace_back(name, value.grad());
  }
  return step;
}

double largest_difference(const Step& a, const Step& b) {
  double largest = 0;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    const at::Tensor difference = a.gradients[i].second - b.gradients[i].second;
    largest = std::max(largest, difference.abs().max().item<double>());
  }
  return largest;
}

const AuxiliaryLosses every_loss{.balance = 0.5, .router_z = 0.1, .output_z = 0.1};

TEST(ExpertStep, AnyCutOfTheBatchGivesTheSameGradient) {
  for (const std::string router : {"sigmoid", "softmax"}) {
    const Step whole = step_of(router, 8, every_loss);
    for (const int64_t rows : {1, 2, 4}) {
      const Step other = step_of(router, rows, every_loss);
      EXPECT_NEAR(other.loss, whole.loss, 1e-12) << router << rows;
      EXPECT_LT(largest_difference(whole, other), 1e-12) << router << rows;
      for (const size_t layer : {1, 2}) {
        EXPECT_TRUE(at::equal(whole.counts[layer], other.counts[layer])) << router << rows;
      }
    }
  }
}

int64_t router_passes = 0;

// Counting asks no pass of the first micro-batch twice: 2 n - 1 passes, each through two routers.
TEST(ExpertStep, ABalanceLossMakesOnePassLessThanTwiceTheMicroBatches) {
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                           -> std::unique_ptr<at::ObserverContext> {
                              router_passes += std::string_view(function.name()) == "kha/router";
                              return nullptr;
                            }).scopes({at::RecordScope::USER_SCOPE}));
  std::vector<int64_t> passes;
  for (const AuxiliaryLosses& losses : {AuxiliaryLosses{}, every_loss}) {
    router_passes = 0;
    step_of("sigmoid", 2, losses);
    passes.push_back(router_passes);
  }
  at::removeCallback(handle);
  EXPECT_EQ(passes, (std::vector<int64_t>{2 * 4, 2 * (2 * 4 - 1)}));
}

// Each loss moves the gradient, and none the loss that is told.
TEST(ExpertStep, AuxiliaryLossesAreInTheGradientAlone) {
  const Step plain = step_of("sigmoid", 4, {});
  for (const AuxiliaryLosses& losses :
       {AuxiliaryLosses{.balance = 0.5}, {.router_z = 0.1}, {.output_z = 0.1}}) {
    const Step other = step_of("sigmoid", 4, losses);
    EXPECT_EQ(other.loss, plain.loss);
    EXPECT_GT(largest_difference(plain, other), 1e-4);
  }
}

TEST(ExpertStep, CountsAreOfAllTextAndOfLayersWithExperts) {
  const Step step = step_of("sigmoid", 2, {});
  EXPECT_FALSE(step.counts[0].defined());
  const int64_t text = 8 * 10 - 2 * 4;
  for (const size_t layer : {1, 2}) EXPECT_EQ(step.counts[layer].sum().item<int64_t>(), 2 * text);
}

TEST(ExpertStep, LayersThatRunAgainChangeNoBit) {
  const Step plain = step_of("sigmoid", 2, every_loss);
  const Step again = step_of("sigmoid", 2, every_loss, Recompute::layer);
  EXPECT_EQ(largest_difference(plain, again), 0);
  EXPECT_TRUE(at::equal(plain.counts[2], again.counts[2]));
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// F = 0.1, 0.2, 0.3, 0.4 and Q = 0.25: F - Q = -0.15, -0.05, 0.05, 0.15, RMS sqrt(0.0125).
TEST(BiasStep, ByHand) {
  const std::vector<int64_t> counts{10, 20, 30, 40};
  const auto rms = bias_step("rms", 0.001, counts);
  const auto sign = bias_step("sign", 0.001, counts);
  const auto proportional = bias_step("proportional", 0.001, counts);
  const double excess[] = {-0.15, -0.05, 0.05, 0.15};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(rms[i], -0.001 * excess[i] / std::sqrt(0.0125), 1e-15);
    EXPECT_NEAR(sign[i], i < 2 ? 0.001 : -0.001, 1e-18);
    EXPECT_NEAR(proportional[i], -0.001 * excess[i] * 4, 1e-15);
    EXPECT_EQ(bias_step("none", 0.001, counts)[i], 0);
  }
}

TEST(BiasStep, SumsToZeroAndIsAsLongAsTheRate) {
  const std::vector<int64_t> counts{7, 0, 1, 93, 12, 12, 5, 1000};
  for (const std::string rule : {"rms", "sign", "proportional"}) {
    EXPECT_NEAR(sum_of(bias_step(rule, 0.01, counts)), 0, 1e-15) << rule;
  }
  EXPECT_NEAR(root_mean_square(bias_step("rms", 0.01, counts)), 0.01, 1e-16);
  // One expert moves by at most u sqrt(n - 1).
  const auto one = bias_step("rms", 0.01, {0, 0, 0, 0, 8});
  EXPECT_NEAR(one[4], -0.01 * std::sqrt(4.0), 1e-16);
}

TEST(BiasStep, AnEvenOrEmptyLoadMovesNothing) {
  for (const std::string rule : {"rms", "sign", "proportional"}) {
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{3, 3, 3}, {0, 0, 0}, {5}}) {
      for (const double step : bias_step(rule, 0.001, counts)) EXPECT_EQ(step, 0) << rule;
    }
  }
}

// Experts with less load than their share gain, and a shift of all biases chooses no other expert.
TEST(Balance, MovesTheBiasOfEachLayerWithExperts) {
  const ModelConfig config = mixture("sigmoid");
  const Parameters parameters = initialise(config, KnockStart::identity, 3);
  const std::string name = "model.layers.2.mlp.gate.e_score_correction_bias";
  ExpertCounts counts(3);
  counts[2] = at::tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 15});
  balance_experts(config, {.balance = "rms", .balance_rate = 0.01}, counts, parameters);
  const auto step = bias_step("rms", 0.01, {1, 2, 3, 4, 5, 15});
  for (int64_t e = 0; e < 6; ++e) {
    EXPECT_EQ(parameters.at(name)[e].item<float>(), static_cast<float>(step[e])) << e;
  }
  EXPECT_EQ(
      parameters.at("model.layers.1.mlp.gate.e_score_correction_bias").abs().max().item<float>(),
      0);
  balance_experts(config, {.balance = "none"}, counts, parameters);
  EXPECT_EQ(parameters.at(name)[0].item<float>(), static_cast<float>(step[0]));
  balance_experts(mixture("softmax"), {}, counts,
                  initialise(mixture("softmax"), KnockStart::identity, 3));  // has no bias
}

TEST(Balance, SelectionIsTheSameUnderACommonShift) {
  const ModelConfig config = mixture("sigmoid");
  const Batch batch = batch_of(0, 8);
  std::vector<ExpertCounts> counts(2);
  for (int shifted = 0; shifted < 2; ++shifted) {
    const Parameters parameters = initialise(config, KnockStart::identity, 3);
    for (const auto& [name, value] : parameters.entries()) {
      if (name.ends_with("correction_bias")) at::Tensor(value).fill_(0.25 * shifted);
    }
    accumulate_gradient(config, parameters, {batch}, {}, {}, {}, &counts[shifted]);
  }
  for (const size_t layer : {1, 2}) {
    EXPECT_TRUE(at::equal(counts[0][layer], counts[1][layer]));
  }
}

// The biases are no parameters of the optimiser; the experts of a layer are three.
TEST(ExpertOptimizer, BiasesStayOutside) {
  RunConfig config;
  config.model = mixture("sigmoid");
  const Parameters parameters = initialise(config.model, KnockStart::identity, 3);
  const Optimizer optimizer(config, memory_table(config.model), parameters);
  int64_t experts = 0;
  for (const auto& group : optimizer.groups()) {
    if (group.name == "experts") {
      experts = group.tensors;
      EXPECT_EQ(group.parameters, 2 * 3 * (6 + 1) * 8 * 16);
      EXPECT_EQ(group.decays_to, "zero");
    }
  }
  EXPECT_EQ(experts, 2 * (3 + 3));
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  EXPECT_FALSE(optimizer.has(bias));
  EXPECT_FALSE(parameters.at(bias).requires_grad());
  EXPECT_TRUE(optimizer.has("model.layers.1.mlp.experts.gate_proj"));
}

TEST(Load, FiguresByHand) {
  ExpertCounts counts(3);
  counts[1] = at::tensor(std::vector<int64_t>{0, 4, 4, 8});
  counts[2] = at::tensor(std::vector<int64_t>{2, 2, 2, 10});
  const LoadFigures figures = load_figures(counts);
  EXPECT_DOUBLE_EQ(figures.largest, 2.5);
  EXPECT_DOUBLE_EQ(figures.smallest, 0);
  EXPECT_DOUBLE_EQ(figures.dead, 1.0 / 8);
  EXPECT_DOUBLE_EQ(figures.max_violation, (1.0 + 1.5) / 2);
  EXPECT_EQ(load_figures(ExpertCounts(2)).largest, 0);  // all layers dense
}

// What a file holds of an expert is a view of where it lies, in the order of the table.
TEST(ParameterLayout, StoredTensorsAreViews) {
  const ModelConfig config = mixture("sigmoid");
  const Parameters parameters = initialise(config, KnockStart::identity, 3);
  const auto stored = stored_tensors(config, parameters);
  const auto table = parameter_table(config);
  ASSERT_EQ(stored.size(), table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(stored[i].first, table[i].name);
    EXPECT_EQ(stored[i].second.sizes().vec(), table[i].shape) << table[i].name;
    EXPECT_TRUE(stored[i].second.is_contiguous());
    EXPECT_TRUE(at::equal(stored[i].second, initial_tensor(table[i], config.initializer_range, 3)))
        << table[i].name;
  }
  EXPECT_EQ(parameters.at("model.layers.1.mlp.experts.down_proj").sizes(),
            (std::vector<int64_t>{6, 16, 8}));
  EXPECT_LT(memory_table(config).size(), table.size());
}

}  // namespace
}  // namespace kha
