// Gradients against central differences in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace kha::test {

using Values = std::vector<double>;

inline Values random_values(std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Values values(count);
  for (double& value : values) value = normal(engine);
  return values;
}

inline Values identity(std::int64_t dim) {
  Values matrix(dim * dim, 0.0);
  for (std::int64_t i = 0; i < dim; ++i) matrix[i * dim + i] = 1.0;
  return matrix;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `loss` reads `values`; each entry is moved by 1e-6 both ways and put back. The difference
// quotient is good to about 1e-9 here (rounding 1e-16 * |loss| / 1e-6, truncation below it).
inline void expect_gradient(const std::string& name, Values& values, const Values& gradient,
                            const std::function<double()>& loss) {
  ASSERT_EQ(values.size(), gradient.size()) << name;
  constexpr double step = 1e-6;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    values[i] = value + step;
    const double above = loss();
    values[i] = value - step;
    const double below = loss();
    values[i] = value;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-7) << name << "[" << i << "]";
  }
}

}  // namespace kha::test
