// The reference of attention against its formula written out over whole rows, and its gradients
// against differences.
#include "kha/kernels/reference_attention.h"

#include <gtest/gtest.h>

#include "kernels/finite_differences.h"

namespace kha::test {
namespace {

struct Case {
  std::int64_t length, positions, width, value_width;
  Values q = random_values(length * width, 1), k = random_values(positions * width, 2);
  Values v = random_values(positions * value_width, 3);
  Values grad = random_values(length * value_width, 4);

  reference::AttentionHead head() {
    return {adjacent_rows(q.data(), length, width), adjacent_rows(k.data(), positions, width),
            adjacent_rows(v.data(), positions, value_width), 0.7};
  }
  Rows<double> results(Values& of) { return adjacent_rows(of.data(), length, value_width); }
  Values attended() {
    Values y(length * value_width, NAN), workspace(positions);
    reference::causal_attention(head(), results(y), workspace.data());
    return y;
  }
};

const std::vector<Case> cases{{1, 1, 1, 1}, {3, 3, 4, 2}, {2, 5, 3, 4}, {1, 4, 2, 2}};

TEST(ReferenceAttention, IsTheSoftmaxOverWhatIsSeen) {
  for (Case c : cases) {
    const Values y = c.attended();
    for (std::int64_t t = 0; t < c.length; ++t) {
      const std::int64_t seen = t + c.positions - c.length + 1;
      Values weights;
      double sum = 0.0;
      for (std::int64_t s = 0; s < seen; ++s) {
        double score = 0.0;
        for (std::int64_t i = 0; i < c.width; ++i)
          score += c.q[t * c.width + i] * c.k[s * c.width + i];
        weights.push_back(std::exp(0.7 * score));
        sum += weights.back();
      }
      for (std::int64_t i = 0; i < c.value_width; ++i) {
        double want = 0.0;
        for (std::int64_t s = 0; s < seen; ++s) {
          want += weights[s] / sum * c.v[s * c.value_width + i];
        }
        EXPECT_NEAR(y[t * c.value_width + i], want, 1e-13) << t << ", " << i;
      }
    }
  }
}

TEST(ReferenceAttention, GradientsAreTheDifferences) {
  for (Case c : cases) {
    Values dq(c.q.size(), NAN), dk(c.k.size()), dv(c.v.size()), workspace(2 * c.positions);
    reference::causal_attention_backward(
        c.results(c.grad), c.head(), adjacent_rows(dq.data(), c.length, c.width),
        adjacent_rows(dk.data(), c.positions, c.width),
        adjacent_rows(dv.data(), c.positions, c.value_width), workspace.data());
    const auto loss = [&] { return dot(c.attended(), c.grad); };
    expect_gradient("queries", c.q, dq, loss);
    expect_gradient("keys", c.k, dk, loss);
    expect_gradient("values", c.v, dv, loss);
  }
}

// Scores far beyond the range of e^x.
TEST(ReferenceAttention, LargeScoresChooseTheLargest) {
  Case c{2, 2, 1, 1};
  c.q = {1000.0, 1000.0};
  c.k = {1000.0, 2000.0};
  const Values y = c.attended();
  EXPECT_EQ(y[0], c.v[0]);
  EXPECT_EQ(y[1], c.v[1]);
}

}  // namespace
}  // namespace kha::test
