#include "kha/core/paired_difference.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>

namespace kha {
namespace {

// P(|T| <= t) for whole degrees of freedom, in closed form (Abramowitz and Stegun 26.7.3, 26.7.4).
double central_probability(double t, int64_t degrees) {
  const double n = static_cast<double>(degrees);
  const double angle = std::atan(t / std::sqrt(n));
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1.0, sum = degrees == 1 ? 0.0 : term;
  for (int64_t k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

double student_t_95(int64_t degrees) {
  assert(degrees > 0);
  if (degrees > 2000) return 1.959963984540054 + 2.3722 / static_cast<double>(degrees);
  double low = 1.9, high = 13.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (central_probability(middle, degrees) < 0.95 ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval interval_over_seeds(const std::vector<double>& differences) {
  assert(differences.size() >= 2);
  const double n = static_cast<double>(differences.size());
  double mean = 0, squares = 0;
  for (const double d : differences) mean += d / n;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  const double half =
      student_t_95(static_cast<int64_t>(differences.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

Interval interval_over_documents(const DocumentLosses& arm, const DocumentLosses& reference) {
  double difference = 0, targets = 0;
  for (const auto& [document, loss] : arm) {
    difference += loss.nats - reference.at(document).nats;
    targets += static_cast<double>(loss.targets);
  }
  const double mean = difference / targets, n = static_cast<double>(arm.size());
  if (arm.size() < 2) {
    const double unknown = std::numeric_limits<double>::infinity();
    return {mean, -unknown, unknown};
  }
  double squares = 0;
  for (const auto& [document, loss] : arm) {
    const double residual =
        loss.nats - reference.at(document).nats - mean * static_cast<double>(loss.targets);
    squares += residual * residual;
  }
  const double error = std::sqrt(n / (n - 1) * squares) / targets;
  const double half = student_t_95(static_cast<int64_t>(arm.size()) - 1) * error;
  return {mean, mean - half, mean + half};
}

}  // namespace kha
