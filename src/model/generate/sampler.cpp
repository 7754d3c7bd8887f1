#include "model/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/data/keyed_order.h"
#include "kha/core/error.h"

namespace kha {
namespace {

struct Candidate {
  std::int64_t id;
  float logit;
  double weight = 0;  // its probability times an unknown common factor
};

bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

void require_finite(std::span<const float> logits) {
  const auto bad =
      std::find_if_not(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
  if (bad == logits.end() && !logits.empty()) return;
  fail({.what = "the model gives no usable logits for the next token",
        .where = logits.empty() ? "" : fmt::format("id {}", bad - logits.begin()),
        .expected = "a finite number for every token",
        .found = logits.empty() ? "no number at all" : fmt::format("{}", *bad),
        .cause = "weights that are not finite: the training run diverged",
        .next = "use an earlier checkpoint; kha inspect MODEL shows the weights' ranges"});
}

std::vector<Candidate> largest(std::span<const float> logits, std::int64_t top_k) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates.push_back({static_cast<std::int64_t>(i), logits[i]});
  }
  std::sort(candidates.begin(), candidates.end(), before);
  const auto count = static_cast<std::int64_t>(candidates.size());
  if (top_k > 0 && top_k < count) candidates.resize(top_k);
  return candidates;
}

// Relative to the largest logit, so that no temperature overflows: exponents are at most 0, and
// the first weight is 1 even where the others vanish.
void weigh(std::vector<Candidate>& candidates, double temperature) {
  const double top = candidates.front().logit;
  for (auto& candidate : candidates)
    candidate.weight = std::exp((candidate.logit - top) / temperature);
}

double total(const std::vector<Candidate>& candidates) {
  return std::accumulate(
      candidates.begin(), candidates.end(), 0.0,
      [](double sum, const Candidate& candidate) { return sum + candidate.weight; });
}

void keep_share(std::vector<Candidate>& candidates, double top_p) {
  if (top_p >= 1) return;
  const double wanted = top_p * total(candidates);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && sum < wanted) sum += candidates[kept++].weight;
  candidates.resize(std::max<std::size_t>(kept, 1));
}

}  // namespace

void validate(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    fail({.what = "this temperature cannot be used",
          .where = "--temperature",
          .expected = "0 (always the most probable token) or a positive, finite number",
          .found = fmt::format("{}", options.temperature)});
  }
  if (options.top_k < 0) {
    fail({.what = "this top-k cannot be used",
          .where = "--top-k",
          .expected = "a number of tokens, or 0 for all of them",
          .found = fmt::format("{}", options.top_k)});
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    fail({.what = "this top-p cannot be used",
          .where = "--top-p",
          .expected = "a share above 0, at most 1",
          .found = fmt::format("{}", options.top_p)});
  }
}

double uniform_draw(std::uint64_t seed, std::int64_t index) {
  const std::uint64_t word = mix(seed, static_cast<std::uint64_t>(index));
  return static_cast<double>(word >> 11) * 0x1p-53;
}

std::int64_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  require_finite(logits);
  if (options.temperature == 0) return largest(logits, 1).front().id;
  std::vector<Candidate> candidates = largest(logits, options.top_k);
  weigh(candidates, options.temperature);
  keep_share(candidates, options.top_p);
  double left = uniform * total(candidates);
  for (const auto& candidate : candidates) {
    if (left < candidate.weight) return candidate.id;
    left -= candidate.weight;
  }
  return candidates.front().id;  // rounding has used up the last weight
}

}  // namespace kha
