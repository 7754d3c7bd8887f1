#include "train/balance.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kha/core/parameter_table.h"
#include "observe/pass_figures.h"

namespace kha {
namespace {

using Values = std::vector<double>;

std::vector<int64_t> numbers(const at::Tensor& counts) {
  const at::Tensor adjacent = counts.contiguous();
  const auto* first = adjacent.const_data_ptr<int64_t>();
  return {first, first + adjacent.numel()};
}

// F - Q.
Values excess(const std::vector<int64_t>& counts) {
  const auto sum = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  Values values(counts.size(), 0);
  if (sum == 0) return values;
  for (size_t i = 0; i < counts.size(); ++i) {
    values[i] = static_cast<double>(counts[i]) / sum - 1.0 / static_cast<double>(counts.size());
  }
  return values;
}

double root_mean_square(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// Whole numbers decide: a share rounds to a hair beside 1 / n where the load is exactly even.
Values signs(const std::vector<int64_t>& counts) {
  const auto sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto n = static_cast<int64_t>(counts.size());
  Values values;
  for (const int64_t count : counts) {
    values.push_back(count * n > sum ? 1 : count * n < sum ? -1 : 0);
  }
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  for (double& value : values) value -= mean;
  return values;
}

bool even(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
}

}  // namespace

Values bias_step(const std::string& rule, double rate, const std::vector<int64_t>& counts) {
  if (rule == "none" || even(counts)) return Values(counts.size(), 0);
  Values step = rule == "sign" ? signs(counts) : excess(counts);
  double factor = -rate;
  if (rule == "rms") factor /= root_mean_square(step);
  if (rule == "proportional") factor *= static_cast<double>(counts.size());
  for (double& value : step) value *= factor;
  return step;
}

void balance_experts(const ModelConfig& config, const ExpertOptions& options,
                     const ExpertCounts& counts, const Parameters& parameters) {
  if (!config.experts.selection_bias() || options.balance == "none") return;
  const at::NoGradGuard no_grad;
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    if (!counts[layer].defined()) continue;
    const Values step = bias_step(options.balance, options.balance_rate, numbers(counts[layer]));
    const at::Tensor bias = parameters.at(feed_forward_prefix(static_cast<int64_t>(layer)) +
                                          "gate.e_score_correction_bias");
    const at::Tensor moved = bias.to(at::kCPU, at::kDouble) + at::tensor(step, at::kDouble);
    bias.copy_(moved);
  }
}

namespace {

Values shares_of(const std::vector<int64_t>& counts) {
  const auto sum = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  Values shares;
  for (const int64_t count : counts) shares.push_back(static_cast<double>(count) / sum);
  return shares;
}

}  // namespace

LoadFigures load_figures(const ExpertCounts& counts) {
  LoadFigures figures;
  double dead = 0, experts = 0, layers = 0;
  figures.evenness = 0;
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    if (!counts[layer].defined()) continue;
    const auto load = numbers(counts[layer]);
    const auto n = static_cast<double>(load.size());
    const double mean =
        static_cast<double>(std::accumulate(load.begin(), load.end(), int64_t{0})) / n;
    if (mean == 0) continue;
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    const double smallest = static_cast<double>(*least) / mean;
    const double largest = static_cast<double>(*most) / mean;
    figures.smallest = layers == 0 ? smallest : std::min(figures.smallest, smallest);
    figures.largest = std::max(figures.largest, largest);
    figures.max_violation += largest - 1;
    figures.of_layer[static_cast<int64_t>(layer)] = largest - 1;
    figures.evenness += evenness(shares_of(load));
    dead += static_cast<double>(std::count(load.begin(), load.end(), 0));
    experts += n;
    layers += 1;
  }
  if (layers == 0) return {};
  figures.evenness /= layers;
  figures.dead = dead / experts;
  figures.max_violation /= layers;
  return figures;
}

}  // namespace kha
