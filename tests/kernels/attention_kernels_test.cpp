// Causal attention of every instruction set against the double reference, forward and backward.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/every_set.h"
#include "kha/kernels/reference_attention.h"

namespace kha::test {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// A value past the end of what a kernel may write, to be found again.
constexpr float guard = 77.0f;

struct Shape {
  std::int64_t length, positions, heads, width, value_width;
  std::string name() const {
    return std::to_string(length) + " of " + std::to_string(positions) + ", " +
           std::to_string(heads) + " x " + std::to_string(width) + "/" +
           std::to_string(value_width);
  }
};

// One tensor of [positions, heads + 1, width]: rows with something between them, which is never
// read (not a number) and never written (it would be seen).
struct Heads {
  std::int64_t count, heads, width;
  Floats data;

  Heads(std::int64_t count, std::int64_t heads, std::int64_t width)
      : count(count), heads(heads), width(width), data(count * stride(), std::nanf("")) {}
  std::int64_t stride() const { return (heads + 1) * width; }
  float& at(std::int64_t row, std::int64_t head, std::int64_t i) {
    return data[row * stride() + head * width + i];
  }
  Rows<float> rows(std::int64_t head) { return {&at(0, head, 0), count, width, stride()}; }
  GroupRows<float> group() { return {data.data(), stride(), width}; }
  GroupRows<const float> readable() { return {data.data(), stride(), width}; }
  Heads& fill(unsigned seed, float size = 1.0f) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = 0; i < heads * width; ++i) at(r, 0, i) = size * normal(engine);
    }
    return *this;
  }
  Doubles head(std::int64_t h) {
    Doubles values;
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = 0; i < width; ++i) values.push_back(at(r, h, i));
    }
    return values;
  }
  bool kept_what_is_between() {
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t i = 0; i < width; ++i) {
        if (!std::isnan(at(r, heads, i))) return false;
      }
    }
    return true;
  }
};

struct Problem {
  Shape shape;
  float scale = 0.3f;
  Heads q, k, v, grad;

  explicit Problem(const Shape& s, float size = 1.0f)
      : shape(s),
        q(Heads(s.length, s.heads, s.width).fill(1, size)),
        k(Heads(s.positions, 1, s.width).fill(2, size)),
        v(Heads(s.positions, 1, s.value_width).fill(3)),
        grad(Heads(s.length, s.heads, s.value_width).fill(4)) {}
  AttentionGroup group() {
    return {q.readable(), k.rows(0), v.rows(0), shape.heads, shape.length, scale};
  }
};

// Of every query head, and of the keys together.
struct Wanted {
  std::vector<Doubles> y, dq;
  Doubles dk, dv;
};

Wanted wanted(Problem& p) {
  const Shape& s = p.shape;
  Doubles keys = p.k.head(0), values = p.v.head(0), workspace(2 * s.positions);
  Wanted w{{}, {}, Doubles(keys.size()), Doubles(values.size())};
  for (std::int64_t h = 0; h < s.heads; ++h) {
    Doubles q = p.q.head(h), grad = p.grad.head(h), y(grad.size()), dq(q.size());
    const reference::AttentionHead head{adjacent_rows(q.data(), s.length, s.width),
                                        adjacent_rows(keys.data(), s.positions, s.width),
                                        adjacent_rows(values.data(), s.positions, s.value_width),
                                        p.scale};
    reference::causal_attention(head, adjacent_rows(y.data(), s.length, s.value_width),
                                workspace.data());
    reference::causal_attention_backward(adjacent_rows(grad.data(), s.length, s.value_width), head,
                                         adjacent_rows(dq.data(), s.length, s.width),
                                         adjacent_rows(w.dk.data(), s.positions, s.width),
                                         adjacent_rows(w.dv.data(), s.positions, s.value_width),
                                         workspace.data());
    w.y.push_back(y);
    w.dq.push_back(dq);
  }
  return w;
}

struct Found {
  Heads y, dq, dk, dv;
  Floats sums;
};

// Workspace of a size and with values in it that show a read of what was not written.
class Workspace {
 public:
  explicit Workspace(std::int64_t size) : size_(size), space_(size + 17, std::nanf("")) {
    data()[size_] = guard;
  }
  ~Workspace() { EXPECT_EQ(data()[size_], guard) << "wrote past the workspace"; }
  // At a cache line's beginning.
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(space_.data()) / sizeof(float);
    return space_.data() + (16 - address % 16) % 16;
  }

 private:
  std::int64_t size_;
  Floats space_;
};

Found run(const CpuKernels& kernels, Problem& p) {
  const Shape& s = p.shape;
  Found f{Heads(s.length, s.heads, s.value_width), Heads(s.length, s.heads, s.width),
          Heads(s.positions, 1, s.width), Heads(s.positions, 1, s.value_width),
          Floats(s.heads * s.length + 1, guard)};
  const AttentionGroup group = p.group();
  kernels.causal_attention(group, {0, s.length}, f.y.group(), f.sums.data(),
                           Workspace(kernels.attention_workspace(group)).data());
  kernels.causal_attention_backward(group, {p.grad.readable(), f.y.readable(), f.sums.data()},
                                    {{0, s.positions}, {0, s.length}},
                                    {f.dq.group(), f.dk.rows(0), f.dv.rows(0)},
                                    Workspace(kernels.attention_backward_workspace(group)).data());
  return f;
}

void expect_near(const Doubles& found, const Doubles& want, double tolerance,
                 const std::string& where) {
  ASSERT_EQ(found.size(), want.size()) << where;
  double largest = 1.0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) {
    // Negated, so that a NaN fails.
    ASSERT_TRUE(std::abs(found[i] - want[i]) <= tolerance * largest)
        << where << "[" << i << "]: " << found[i] << " instead of " << want[i];
  }
}

void expect_reference(const CpuKernels& kernels, Problem p, double tolerance,
                      const std::string& set) {
  const Wanted want = wanted(p);
  Found found = run(kernels, p);
  const std::string where = set + " " + p.shape.name();
  for (std::int64_t h = 0; h < p.shape.heads; ++h) {
    expect_near(found.y.head(h), want.y[h], tolerance, where + ", y");
    expect_near(found.dq.head(h), want.dq[h], tolerance, where + ", dq");
  }
  expect_near(found.dk.head(0), want.dk, tolerance, where + ", dk");
  expect_near(found.dv.head(0), want.dv, tolerance, where + ", dv");
  EXPECT_EQ(found.sums.back(), guard) << where;
  for (Heads* of : {&found.y, &found.dq, &found.dk, &found.dv}) {
    EXPECT_TRUE(of->kept_what_is_between()) << where;
  }
}

class AttentionKernels : public EverySet {};

// One query and one key, less than a tile, tiles and what is left over, several blocks of either
// side, positions before the queries that end within a tile, widths around every vector's.
TEST_P(AttentionKernels, ForwardAndEveryGradientAreTheReferences) {
  for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1, 1},
                                               {1, 9, 2, 3, 5},
                                               {2, 2, 1, 8, 8},
                                               {5, 5, 3, 7, 9},
                                               {6, 7, 1, 16, 16},
                                               {13, 13, 2, 17, 15},
                                               {33, 40, 1, 24, 32},
                                               {96, 96, 1, 32, 16},
                                               {97, 97, 2, 33, 20},
                                               {64, 200, 1, 40, 8},
                                               {100, 101, 1, 5, 31},
                                               {192, 192, 1, 12, 12},
                                               {3, 300, 2, 20, 20},
                                               {130, 290, 2, 64, 64},
                                               {110, 207, 1, 192, 128}}) {
    expect_reference(kernels(), Problem(shape), 1e-5, GetParam().name);
  }
}

// Every remainder of queries and keys by the tiles.
TEST_P(AttentionKernels, EveryLength) {
  for (std::int64_t length = 1; length <= 40; ++length) {
    for (const std::int64_t before : {0, 1, 70}) {
      expect_reference(kernels(), Problem({length, length + before, 1, 8, 4}), 3e-6,
                       GetParam().name);
    }
  }
}

// Scores of hundreds: the largest is subtracted, what is far below it is nothing.
TEST_P(AttentionKernels, LargeScores) {
  expect_reference(kernels(), Problem({120, 140, 2, 16, 8}, 12.0f), 4e-4, GetParam().name);
}

TEST_P(AttentionKernels, EqualScoresAreAnAverage) {
  Problem p({100, 100, 1, 8, 8});
  std::fill(p.q.data.begin(), p.q.data.end(), 0.0f);
  Found found = run(kernels(), p);
  double sum = 0.0;
  for (std::int64_t t = 0; t < 100; ++t) {
    sum += p.v.at(t, 0, 3);
    EXPECT_NEAR(found.y.at(t, 0, 3), sum / static_cast<double>(t + 1), 1e-6) << t;
    EXPECT_NEAR(found.sums[t], std::log(static_cast<double>(t + 1)), 1e-6) << t;
  }
}

bool has_nan(Heads& x, std::int64_t row, std::int64_t head) {
  for (std::int64_t i = 0; i < x.width; ++i) {
    if (std::isnan(x.at(row, head, i))) return true;
  }
  return false;
}

// What is no number at query 20 of head 1 spoils that query's gradient, and those of the keys that
// it saw; of the keys behind it at most a tile's.
void expect_spoiled(const CpuKernels& kernels, Found& found) {
  for (std::int64_t t = 0; t < 60; ++t) {
    EXPECT_FALSE(has_nan(found.y, t, 0)) << t;
    EXPECT_EQ(has_nan(found.dq, t, 1), t == 20) << t;
    if (t > 20 && t < 20 + kernels.tile_rows) continue;
    EXPECT_EQ(has_nan(found.dk, t, 0), t <= 20) << t;
    EXPECT_EQ(has_nan(found.dv, t, 0), t <= 20) << t;
  }
}

TEST_P(AttentionKernels, AQueryThatIsNoNumberIsSeen) {
  Problem p({60, 60, 2, 8, 8});
  p.q.at(20, 1, 3) = std::nanf("");
  Found found = run(kernels(), p);
  expect_spoiled(kernels(), found);
  for (std::int64_t t = 0; t < 60; ++t) EXPECT_EQ(has_nan(found.y, t, 1), t == 20) << t;
}

// No result depends on it.
TEST_P(AttentionKernels, AGradientThatIsNoNumberIsSeen) {
  Problem p({60, 60, 2, 8, 8});
  p.grad.at(20, 1, 3) = std::nanf("");
  Found found = run(kernels(), p);
  expect_spoiled(kernels(), found);
  for (std::int64_t t = 0; t < 60; ++t) EXPECT_FALSE(has_nan(found.y, t, 1)) << t;
}

// Scores of minus infinity weigh nothing, also where they fill a whole block of keys.
TEST_P(AttentionKernels, ScoresOfMinusInfinityWeighNothing) {
  Problem p({150, 150, 1, 1, 2});
  for (std::int64_t t = 0; t < 150; ++t) {
    p.q.at(t, 0, 0) = 3e38f;
    p.k.at(t, 0, 0) = t < 120 ? -3e38f : 0.0f;
  }
  Heads y = run(kernels(), p).y;
  double sum = 0.0;
  for (std::int64_t t = 120; t < 150; ++t) {
    sum += p.v.at(t, 0, 1);
    EXPECT_NEAR(y.at(t, 0, 1), sum / static_cast<double>(t - 119), 1e-6) << t;
  }
}

TEST_P(AttentionKernels, InfiniteScoresAreNoNumbers) {
  Problem p({10, 10, 1, 4, 4});
  for (std::int64_t i = 0; i < 4; ++i) {
    p.q.at(9, 0, i) = 3e38f;
    p.k.at(9, 0, i) = 3e38f;
  }
  EXPECT_TRUE(std::isnan(run(kernels(), p).y.at(9, 0, 0)));
}

void expect_same_bits(Found& a, Found& b) {
  for (const auto& [x, y] :
       {std::pair{&a.y, &b.y}, {&a.dq, &b.dq}, {&a.dk, &b.dk}, {&a.dv, &b.dv}}) {
    for (std::int64_t r = 0; r < x->count; ++r) {
      for (std::int64_t i = 0; i < x->heads * x->width; ++i) {
        ASSERT_EQ(x->at(r, 0, i), y->at(r, 0, i)) << r << ", " << i;
      }
    }
  }
}

TEST_P(AttentionKernels, BitsAreTheSameAgain) {
  Problem p({150, 170, 2, 24, 24});
  Found once = run(kernels(), p), again = run(kernels(), p);
  expect_same_bits(once, again);
}

// Whichever way the work is cut: queries of the forward pass in stretches, gradients of keys and of
// queries each for themselves, in stretches.
TEST_P(AttentionKernels, StretchesMakeTheSameBits) {
  Problem p({250, 300, 2, 24, 24});
  Found whole = run(kernels(), p), parts = run(kernels(), p);
  for (Heads* x : {&parts.y, &parts.dq, &parts.dk, &parts.dv}) x->fill(9);
  std::fill(parts.sums.begin(), parts.sums.end() - 1, -guard);
  const AttentionGroup group = p.group();
  const std::int64_t block = kernels().attention_rows;
  const AttentionResults results{p.grad.readable(), whole.y.readable(), whole.sums.data()};
  const AttentionGradients to{parts.dq.group(), parts.dk.rows(0), parts.dv.rows(0)};
  // Of its own for each call: nothing may be left from another.
  const auto backward = [&](const AttentionPart& part) {
    Workspace space(kernels().attention_backward_workspace(group));
    kernels().causal_attention_backward(group, results, part, to, space.data());
  };
  for (std::int64_t at = 0; at < 300; at += block) {
    const RowRange keys{at, std::min(block, 300 - at)}, queries{at, std::min(block, 250 - at)};
    backward({keys, {0, 250}, true, false});
    if (at >= 250) continue;
    backward({{0, 300}, queries, false, true});
    kernels().causal_attention(group, queries, parts.y.group(), parts.sums.data(),
                               Workspace(kernels().attention_workspace(group)).data());
  }
  expect_same_bits(whole, parts);
  EXPECT_EQ(whole.sums, parts.sums);
}

INSTANTIATE_TEST_SUITE_P(Sets, AttentionKernels, testing::ValuesIn(all_kernels()),
                         [](const auto& set) { return set.param.name; });

}  // namespace
}  // namespace kha::test
