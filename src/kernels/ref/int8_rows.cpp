#include <algorithm>
#include <cmath>

#include "kha/kernels/reference_cache.h"

namespace kha::reference {

void quantise_rows(Rows<const double> x, Rows<std::int8_t> q, double* scales) {
  for (std::int64_t row = 0; row < x.count; ++row) {
    double largest = 0.0;
    for (std::int64_t i = 0; i < x.width; ++i) largest = std::max(largest, std::abs(x[row][i]));
    scales[row] = largest / 127.0;
    for (std::int64_t i = 0; i < x.width; ++i) {
      const double steps = largest == 0.0 ? 0.0 : x[row][i] * (127.0 / largest);
      q[row][i] = static_cast<std::int8_t>(std::nearbyint(steps));
    }
  }
}

void dequantise_rows(Rows<const std::int8_t> q, const double* scales, Rows<double> x) {
  for (std::int64_t row = 0; row < q.count; ++row) {
    for (std::int64_t i = 0; i < q.width; ++i) x[row][i] = scales[row] * q[row][i];
  }
}

}  // namespace kha::reference
