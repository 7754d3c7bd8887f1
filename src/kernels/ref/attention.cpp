// Causal attention, one query at a time.
#include <algorithm>
#include <cmath>

#include "kha/kernels/reference_attention.h"

namespace kha::reference {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// to += factor * row.
void add_scaled(double factor, const double* row, std::int64_t count, double* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * row[i];
}

std::int64_t visible_keys(const AttentionHead& head, std::int64_t query) {
  return query + head.keys.count - head.queries.count + 1;
}

// p[s] for the keys that the query sees.
void weigh(const AttentionHead& head, std::int64_t query, double* p) {
  const std::int64_t seen = visible_keys(head, query);
  double largest = -INFINITY, sum = 0.0;
  for (std::int64_t s = 0; s < seen; ++s) {
    p[s] = head.scale * dot(head.queries[query], head.keys[s], head.keys.width);
    largest = std::max(largest, p[s]);
  }
  for (std::int64_t s = 0; s < seen; ++s) sum += p[s] = std::exp(p[s] - largest);
  for (std::int64_t s = 0; s < seen; ++s) p[s] /= sum;
}

}  // namespace

void causal_attention(const AttentionHead& head, Rows<double> y, double* workspace) {
  for (std::int64_t t = 0; t < head.queries.count; ++t) {
    weigh(head, t, workspace);
    std::fill_n(y[t], y.width, 0.0);
    for (std::int64_t s = 0; s < visible_keys(head, t); ++s) {
      add_scaled(workspace[s], head.values[s], y.width, y[t]);
    }
  }
}

void causal_attention_backward(Rows<const double> grad, const AttentionHead& head, Rows<double> dq,
                               Rows<double> dk, Rows<double> dv, double* workspace) {
  double *const p = workspace, *const dp = workspace + head.keys.count;
  for (std::int64_t t = 0; t < head.queries.count; ++t) {
    const std::int64_t seen = visible_keys(head, t);
    weigh(head, t, p);
    for (std::int64_t s = 0; s < seen; ++s) dp[s] = dot(grad[t], head.values[s], grad.width);
    const double mean = dot(p, dp, seen);
    std::fill_n(dq[t], dq.width, 0.0);
    for (std::int64_t s = 0; s < seen; ++s) {
      const double ds = head.scale * p[s] * (dp[s] - mean);
      add_scaled(ds, head.keys[s], dq.width, dq[t]);
      add_scaled(ds, head.queries[t], dk.width, dk[s]);
      add_scaled(p[s], grad[t], dv.width, dv[s]);
    }
  }
}

}  // namespace kha::reference
