#include "core/data/mixture_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "kha/core/error.h"

namespace kha {
namespace {

constexpr std::int64_t longest_period = 65536;

void check(std::span<const double> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] > 0) continue;
    fail({.what = "a source's weight is not above 0",
          .where = fmt::format("data.weights, number {}", i + 1),
          .expected = "a number above 0",
          .found = fmt::format("{}", weights[i]),
          .next = "remove a path that is not to be read, with its weight"});
  }
}

// Shares of that period when the weights are multiples of it, else nothing.
std::vector<std::int64_t> exact_shares(std::span<const double> weights, double sum,
                                       std::int64_t period) {
  std::vector<std::int64_t> shares;
  for (const double weight : weights) {
    const double share = weight / sum * static_cast<double>(period);
    constexpr double rounding = 1e-9;
    if (std::abs(share - std::round(share)) > rounding || share < 0.5) return {};
    shares.push_back(std::llround(share));
  }
  return std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) == period
             ? shares
             : std::vector<std::int64_t>{};
}

// The largest remainders are rounded up, so that the shares fill the period.
std::vector<std::int64_t> rounded_shares(std::span<const double> weights, double sum) {
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / sum * longest_period;
    shares.push_back(static_cast<std::int64_t>(share));
    remainders.emplace_back(-(share - std::floor(share)), i);
  }
  std::ranges::sort(remainders);
  const std::int64_t left =
      longest_period - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < left; ++i) ++shares[remainders[i].second];
  return shares;
}

std::vector<std::int64_t> shares_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::int64_t period = 1; period <= longest_period; ++period) {
    auto shares = exact_shares(weights, sum, period);
    if (!shares.empty()) return shares;
  }
  auto shares = rounded_shares(weights, sum);
  const auto none = std::ranges::find(shares, 0);
  if (none == shares.end()) return shares;
  fail({.what = "a source's weight is too small beside the others",
        .where = fmt::format("data.weights, number {}", none - shares.begin() + 1),
        .expected = fmt::format("at least 1/{} of all", longest_period),
        .found = fmt::format("{} of {}", weights[none - shares.begin()], sum)});
}

}  // namespace

MixtureOrder::MixtureOrder(std::span<const double> weights) {
  check(weights);
  shares_ = shares_of(weights);
  make_order();
}

// Of the sources that are due, the one whose next turn may wait the shortest (R. Tijdeman, "The
// chairman assignment problem", 1980): no source is ever ahead or behind by a whole sequence. In
// whole numbers, with deviations counted in 1/(period * slack).
void MixtureOrder::make_order() {
  const auto sources = static_cast<std::int64_t>(shares_.size());
  const std::int64_t period = std::accumulate(shares_.begin(), shares_.end(), std::int64_t{0});
  const std::int64_t slack = std::max<std::int64_t>(2 * sources - 2, 1);
  places_.resize(shares_.size());
  for (std::int64_t n = 1; n <= period; ++n) {
    std::int64_t best = -1;
    double soonest = 0;
    for (std::int64_t i = 0; i < sources; ++i) {
      const auto given = static_cast<std::int64_t>(places_[i].size());
      const std::int64_t due = (n * shares_[i] - given * period) * slack;
      if (due < period) continue;
      const double wait =
          static_cast<double>(period * (slack - 1) - due) / static_cast<double>(shares_[i] * slack);
      if (best < 0 || wait < soonest) {
        best = i;
        soonest = wait;
      }
    }
    assert(best >= 0);
    places_[best].push_back(static_cast<std::uint32_t>(n - 1));
    order_.push_back(static_cast<std::uint32_t>(best));
  }
}

std::int64_t MixtureOrder::before(std::int64_t sequence, std::int64_t source) const {
  const auto& places = places_[source];
  const auto place = static_cast<std::uint32_t>(sequence % period());
  return sequence / period() * share(source) +
         (std::ranges::lower_bound(places, place) - places.begin());
}

}  // namespace kha
