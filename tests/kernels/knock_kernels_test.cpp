// The knock kernels of every instruction set against the double reference. A set that this
// processor lacks is skipped by name.
#include "kernels/knock_kernels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/every_set.h"

namespace kha::test {
namespace {

struct Shape {
  std::int64_t outer, heads, dim, head_gap, outer_gap, piece;
};

// Rows of 1, odd, around the tiles' heights (6, 8, 12), around a block (96) and past it; D of 1,
// odd and around the vectors' widths; gaps between heads and positions; pieces of one and many
// blocks.
const Shape shapes[] = {
    {1, 1, 1, 0, 0, 96},    {1, 3, 2, 1, 3, 96},    {5, 1, 3, 0, 0, 96},
    {7, 1, 7, 0, 2, 96},    {2, 3, 8, 0, 0, 96},    {3, 2, 9, 0, 0, 96},
    {13, 1, 15, 0, 0, 96},  {4, 3, 16, 0, 0, 96},   {11, 1, 17, 5, 0, 96},
    {5, 5, 31, 0, 0, 96},   {8, 3, 32, 32, 64, 96}, {23, 1, 33, 0, 0, 96},
    {6, 4, 64, 0, 0, 96},   {95, 1, 64, 0, 0, 96},  {24, 4, 48, 0, 0, 96},
    {97, 1, 64, 0, 0, 96},  {50, 4, 128, 0, 0, 96}, {17, 2, 128, 256, 128, 96},
    {61, 3, 24, 0, 0, 192}, {3, 7, 100, 0, 0, 96},  {2, 5, 160, 0, 0, 96},
    {9, 1, 256, 0, 0, 96},
};

std::string name_of(const Shape& s) {
  return std::to_string(s.outer) + " x " + std::to_string(s.heads) + " x " + std::to_string(s.dim) +
         ", gaps " + std::to_string(s.head_gap) + " " + std::to_string(s.outer_gap) +
         ", pieces of " + std::to_string(s.piece);
}

class Kernels : public EverySet {};

Results matrices_for(Kind kind, std::int64_t dim, std::mt19937& engine) {
  Results matrices;
  for (std::size_t i = 0; i < matrices_of(kind); ++i)
    matrices.push_back(random_matrix(dim, engine));
  return matrices;
}

// The worst that sums of float32 may differ by: a rounding of each of `terms` terms of size up to
// the largest result, of which most cancel (a random walk), and what the inner values bring.
double allowed(const Doubles& want, std::int64_t terms) {
  double largest = 0;
  for (double value : want) largest = std::max(largest, std::abs(value));
  return 0x1p-23 * std::max(largest, 1.0) * (4 + std::sqrt(static_cast<double>(terms)));
}

void expect_near(const Results& found, const Wanted& want, std::int64_t terms,
                 const std::string& where) {
  ASSERT_EQ(found.size(), want.size()) << where;
  for (std::size_t part = 0; part < want.size(); ++part) {
    const double limit = allowed(want[part], terms);
    for (std::size_t i = 0; i < want[part].size(); ++i) {
      // Negated, so that a NaN fails.
      ASSERT_TRUE(std::abs(found[part][i] - want[part][i]) <= limit)
          << where << ", part " << part << "[" << i << "]: " << found[part][i] << " instead of "
          << want[part][i] << ", limit " << limit;
    }
  }
}

TEST_P(Kernels, EveryMapAndShapeAsTheReference) {
  for (Kind kind : {Kind::linear, Kind::gate, Kind::mlp}) {
    for (const Shape& s : shapes) {
      std::mt19937 engine(7);
      StridedRows x(s.outer, s.heads, s.dim, s.head_gap, s.outer_gap);
      StridedRows grad(s.outer, s.heads, s.dim, s.outer_gap, s.head_gap);
      x.fill(engine);
      grad.fill(engine);
      const Results matrices = matrices_for(kind, s.dim, engine);
      KernelCall call(kernels(), kind, s.dim, matrices);
      const ReferenceCall reference(kind, s.dim, matrices);
      const std::string where = GetParam().name + " " + to_string(kind) + " " + name_of(s);
      const Wanted want = reference.forward(x.in_double());
      expect_near(call.forward(x, s.piece), want, s.dim, where);
      if (x.count() < kernels().few_rows) {
        expect_near(call.forward_few(x), want, s.dim, where + ", few rows");
      }
      expect_near(call.backward(grad, x, s.piece),
                  reference.backward(grad.in_double(), x.in_double()), s.dim + x.count(),
                  where + ", backward");
    }
  }
}

// Sums over rows depend on how they are cut, nothing else does.
TEST_P(Kernels, RowsDoNotDependOnTheirPiece) {
  std::mt19937 engine(8);
  for (Kind kind : {Kind::linear, Kind::gate, Kind::mlp}) {
    StridedRows x(131, 3, 40, 0, 0), grad(131, 3, 40, 0, 0);
    x.fill(engine);
    grad.fill(engine);
    const Results matrices = matrices_for(kind, 40, engine);
    KernelCall call(kernels(), kind, 40, matrices);
    const Floats whole = call.forward(x, 393)[0], cut = call.forward(x, 97)[0];
    EXPECT_EQ(whole, cut) << to_string(kind);
    EXPECT_EQ(call.backward(grad, x, 393)[0], call.backward(grad, x, 101)[0]) << to_string(kind);
  }
}

TEST_P(Kernels, TheIdentityStartIsExact) {
  for (std::int64_t dim : {16, 33, 128}) {
    std::mt19937 engine(9);
    StridedRows x(30, 2, dim, 0, 0), few(4, 1, dim, 0, 0);
    x.fill(engine);
    few.fill(engine);
    for (StridedRows* rows : {&x, &few}) {
      rows->at(0, 0) = std::numeric_limits<float>::denorm_min();
      rows->at(1, 1) = -3 * std::numeric_limits<float>::denorm_min();
      rows->at(2, 2) = std::numeric_limits<float>::max();
    }
    Floats eye(dim * dim, 0.0f), zero(dim * dim, 0.0f);
    for (std::int64_t i = 0; i < dim; ++i) eye[i * dim + i] = 1.0f;
    const std::pair<Kind, Results> starts[] = {
        {Kind::linear, {eye}}, {Kind::gate, {zero}}, {Kind::mlp, {eye, zero, eye}}};
    for (const auto& [kind, matrices] : starts) {
      KernelCall call(kernels(), kind, dim, matrices);
      const Doubles want = x.in_double(), want_few = few.in_double();
      EXPECT_EQ(call.forward(x, 96)[0], Floats(want.begin(), want.end())) << to_string(kind);
      EXPECT_EQ(call.forward_few(few)[0], Floats(want_few.begin(), want_few.end()))
          << to_string(kind);
    }
  }
}

std::string kind_of(double value) {
  return std::isnan(value) ? "nan" : std::isinf(value) ? (value > 0 ? "inf" : "-inf") : "finite";
}

// One bad row: the same values are NaN or infinite as in the reference, other rows stay clean.
TEST_P(Kernels, NanAndInfinityPropagateAsInTheReference) {
  for (Kind kind : {Kind::linear, Kind::gate, Kind::mlp}) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      std::mt19937 engine(10);
      StridedRows x(2, 2, 20, 0, 0), grad(2, 2, 20, 0, 0);
      x.fill(engine);
      grad.fill(engine);
      x.at(3, 7) = bad;
      const Results matrices = matrices_for(kind, 20, engine);
      KernelCall call(kernels(), kind, 20, matrices);
      const ReferenceCall reference(kind, 20, matrices);
      std::vector<std::pair<Results, Wanted>> both{
          {call.forward(x, 96), reference.forward(x.in_double())},
          {call.forward_few(x), reference.forward(x.in_double())},
          {call.backward(grad, x, 96), reference.backward(grad.in_double(), x.in_double())}};
      for (const auto& [found, want] : both) {
        for (std::size_t part = 0; part < want.size(); ++part) {
          for (std::size_t i = 0; i < want[part].size(); ++i) {
            EXPECT_EQ(kind_of(found[part][i]), kind_of(want[part][i]))
                << to_string(kind) << " with " << bad << ", part " << part << "[" << i << "]";
          }
        }
      }
    }
  }
}

// Gradients against differences of the kernels' own forward pass, in float32: a wide step.
TEST_P(Kernels, GradientsAreThoseOfTheForwardPass) {
  constexpr std::int64_t dim = 6;
  constexpr float step = 1e-2f;
  for (Kind kind : {Kind::linear, Kind::gate, Kind::mlp}) {
    std::mt19937 engine(11);
    StridedRows x(9, 1, dim, 0, 0), grad(9, 1, dim, 0, 0);
    x.fill(engine);
    grad.fill(engine);
    Results matrices = matrices_for(kind, dim, engine);
    const auto loss = [&] {
      KernelCall call(kernels(), kind, dim, matrices);
      const Floats y = call.forward(x, 96)[0];
      double sum = 0;
      for (std::int64_t i = 0; i < 9 * dim; ++i) sum += double(y[i]) * grad.at(i / dim, i % dim);
      return sum;
    };
    const auto slope = [&](float& value) {
      const float kept = value;
      value = kept + step;
      const double above = loss();
      value = kept - step;
      const double below = loss();
      value = kept;
      return (above - below) / (2.0 * step);
    };
    const Results found = KernelCall(kernels(), kind, dim, matrices).backward(grad, x, 96);
    for (std::int64_t i = 0; i < 9 * dim; ++i) {
      EXPECT_NEAR(found[0][i], slope(x.at(i / dim, i % dim)), 2e-3)
          << to_string(kind) << " x " << i;
    }
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      for (std::int64_t i = 0; i < dim * dim; ++i) {
        EXPECT_NEAR(found[m + 1][i], slope(matrices[m][i]), 5e-3)
            << to_string(kind) << " matrix " << m << "[" << i << "]";
      }
    }
  }
}

TEST_P(Kernels, TheProbeCountsItsWork) {
  const double one = kernels().probe_multiply_add(1);
  EXPECT_EQ(one, 2.0 * 192 * static_cast<double>(kernels().lanes));
  EXPECT_EQ(kernels().probe_multiply_add(10), 10 * one);
}

INSTANTIATE_TEST_SUITE_P(Sets, Kernels, testing::ValuesIn(all_kernels()),
                         [](const auto& set) { return set.param.name; });

TEST(InstructionSets, TheTableOfASetIsThatSets) {
  for (InstructionSet set : all_instruction_sets) {
    if (is_usable(set)) {
      EXPECT_EQ(cpu_kernels(set).set, set) << to_string(set);
    }
  }
}

TEST(InstructionSets, NamesRoundTripAndOthersAreNothing) {
  for (InstructionSet set : all_instruction_sets) {
    EXPECT_EQ(parse_instruction_set(to_string(set)), set);
  }
  EXPECT_EQ(parse_instruction_set("avx"), std::nullopt);
  EXPECT_EQ(parse_instruction_set(""), std::nullopt);
}

TEST(InstructionSets, TheWidestIsUsableAndTheScalarAlwaysIs) {
  EXPECT_TRUE(is_usable(InstructionSet::scalar));
  EXPECT_TRUE(is_usable(widest_instruction_set()));
}

}  // namespace
}  // namespace kha::test
