// The reference projection with the map in weight space.
#include "kernels/finite_differences.h"
#include "kha/kernels/reference.h"

namespace kha::test {
namespace {

namespace ref = kha::reference;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t heads = 3, dim = 2, width = 4, rows = 5, out = heads * dim;

struct Case {
  Values x = random_values(rows * width, 1);
  Values weight = random_values(out * width, 2);
  Values bias = random_values(out, 3);
  Values map = random_values(dim * dim, 4);
  bool has_bias = true;

  ref::Projection projection() const {
    return {weight.data(), has_bias ? bias.data() : nullptr, map.data(), heads, dim};
  }
  Values forward() const {
    Values y(rows * out, nan_value), workspace(out * (width + 1), nan_value);
    ref::knocked_linear(adjacent_rows(x.data(), rows, width), projection(),
                        adjacent_rows(y.data(), rows, out), workspace.data());
    return y;
  }
};

// The projection without a map, then the map on every head's features.
Values project_then_map(const Case& c) {
  Case plain = c;
  plain.map = identity(dim);
  const Values projected = plain.forward();
  Values y(rows * out, nan_value);
  ref::knock_linear(adjacent_rows(projected.data(), rows * heads, dim), c.map.data(),
                    adjacent_rows(y.data(), rows * heads, dim));
  return y;
}

TEST(ReferenceProjection, EqualsTheMapOnActivations) {
  for (bool has_bias : {true, false}) {
    Case c;
    c.has_bias = has_bias;
    const Values y = c.forward();
    const Values want = project_then_map(c);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-12) << i;
  }
}

TEST(ReferenceProjection, IdentityMapLeavesWeightAndBias) {
  Case c;
  c.map = identity(dim);
  Values weight(out * width, nan_value), bias(out, nan_value);
  ref::map_projection(c.projection(), width, weight.data(), bias.data());
  EXPECT_EQ(weight, c.weight);
  EXPECT_EQ(bias, c.bias);
}

// One head, M = [[1, 2], [3, 4]], W = [[1], [10]], b = [1, 1]: W' = [[21], [43]], b' = [3, 7].
// A transposed M would give W' = [[31], [42]].
TEST(ReferenceProjection, MapsByHand) {
  const Values weight = {1, 10}, bias = {1, 1}, map = {1, 2, 3, 4};
  Values mapped_weight(2, nan_value), mapped_bias(2, nan_value);
  ref::map_projection({weight.data(), bias.data(), map.data(), 1, 2}, 1, mapped_weight.data(),
                      mapped_bias.data());
  EXPECT_EQ(mapped_weight, (Values{21, 43}));
  EXPECT_EQ(mapped_bias, (Values{3, 7}));
}

TEST(ReferenceProjection, Gradients) {
  for (bool has_bias : {true, false}) {
    Case c;
    c.has_bias = has_bias;
    const Values grad = random_values(rows * out, 5);
    Values dx(c.x.size(), nan_value), dweight(c.weight.size(), nan_value);
    Values dbias(c.bias.size(), nan_value), dmap(c.map.size(), nan_value);
    Values workspace(out * (2 * width + 1), nan_value);
    ref::knocked_linear_backward(
        adjacent_rows(grad.data(), rows, out), adjacent_rows(c.x.data(), rows, width),
        c.projection(), adjacent_rows(dx.data(), rows, width),
        {dweight.data(), has_bias ? dbias.data() : nullptr, dmap.data()}, workspace.data());
    const auto loss = [&] { return dot(grad, c.forward()); };
    expect_gradient("x", c.x, dx, loss);
    expect_gradient("weight", c.weight, dweight, loss);
    expect_gradient("map", c.map, dmap, loss);
    if (has_bias) expect_gradient("bias", c.bias, dbias, loss);
  }
}

}  // namespace
}  // namespace kha::test
