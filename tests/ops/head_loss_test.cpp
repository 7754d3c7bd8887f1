// The head loss by every implementation: parity, what does not count, memory, threads, messages.
#include "kha/ops/head_loss.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "counting_allocator.h"
#include "kha/kernels/reference_layers.h"
#include "ops/implementations.h"
#include "ops/tolerance.h"

namespace kha::test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct HeadCase {
  std::int64_t rows, vocabulary, width;
  at::ScalarType dtype = at::kFloat;
  bool strided = false;
};

// Rows of 0, 1, odd, and above a chunk of 64; vocabularies around every vector width.
const std::vector<HeadCase> head_shapes = {
    {0, 5, 3},  {1, 1, 1},   {1, 7, 4},   {3, 8, 5},    {17, 9, 16},
    {5, 31, 8}, {64, 33, 3}, {65, 67, 7}, {130, 16, 1}, {67, 257, 24},
};

struct Head {
  Tensor hidden, weight, targets, scales;
};

// Every third target is not counted.
Head make_head(const HeadCase& c) {
  at::manual_seed(31);
  const auto matrix = [&](std::int64_t rows) {
    const Tensor wide = at::randn({rows, 2 * c.width}, at::kDouble).to(c.dtype);
    return c.strided ? wide.narrow(1, 1, c.width) : wide.narrow(1, 0, c.width).contiguous();
  };
  const Tensor number = at::arange(c.rows, at::kLong);
  const Tensor ids = number.mul(7).remainder(c.vocabulary);
  const auto type = c.dtype == at::kDouble ? at::kDouble : at::kFloat;
  return {matrix(c.rows), matrix(c.vocabulary),
          at::where(number.remainder(3).eq(1), ops::not_counted, ids), at::randn({c.rows}, type)};
}

Tensors in_double(const Tensors& tensors) {
  Tensors wide;
  for (const auto& t : tensors) wide.push_back(t.detach().to(at::kDouble).contiguous());
  return wide;
}

Rows<double> rows_of(const Tensor& t) {
  return adjacent_rows(t.data_ptr<double>(), t.size(0), t.size(1));
}

// losses, dhidden, dweight
Tensors want_of(const Head& head) {
  const Tensors in = in_double({head.hidden, head.weight, head.scales});
  Tensors out = {at::full_like(in[2], NAN), at::full_like(in[0], NAN), at::full_like(in[1], NAN)};
  const Tensor workspace = at::empty({in[1].size(0)}, at::kDouble);
  const auto* targets = head.targets.const_data_ptr<std::int64_t>();
  reference::head_loss(rows_of(in[0]), rows_of(in[1]), targets, out[0].data_ptr<double>(),
                       workspace.data_ptr<double>());
  reference::head_loss_backward(in[2].data_ptr<double>(), rows_of(in[0]), rows_of(in[1]), targets,
                                rows_of(out[1]), rows_of(out[2]), workspace.data_ptr<double>());
  return out;
}

template <class Losses>
Tensors by_autograd(const Head& head, const Losses& losses_of) {
  const Tensor hidden = head.hidden.detach().requires_grad_();
  const Tensor weight = head.weight.detach().requires_grad_();
  const Tensor losses = losses_of(hidden, weight);
  losses.backward(head.scales);
  return in_double({losses, hidden.grad(), weight.grad()});
}

Tensors by_torch(const Head& head) {
  return by_autograd(head, [&](const Tensor& hidden, const Tensor& weight) {
    const Tensor logits = at::linear(hidden, weight);
    const Tensor wide = logits.to(head.scales.scalar_type());
    return at::cross_entropy_loss(wide, head.targets, {}, at::Reduction::None, ops::not_counted);
  });
}

Tensors by_head_loss(const Head& head) {
  return by_autograd(head, [&](const Tensor& hidden, const Tensor& weight) {
    return ops::head_loss(hidden, weight, head.targets);
  });
}

Tensors with_gradients(const Head& head) {
  const auto [losses, dhidden, dweight] =
      ops::head_loss_with_gradients(head.scales, head.hidden, head.weight, head.targets);
  return in_double({losses, dhidden, dweight});
}

class HeadLossOps : public EachImplementation {
 protected:
  void SetUp() override {
    EachImplementation::SetUp();
    at::set_num_threads(1);
  }
};
KHA_FOR_EACH_IMPLEMENTATION(HeadLossOps);

void expect_parity(const HeadCase& c) {
  const Head head = make_head(c);
  const Tensors want = want_of(head), torch = by_torch(head);
  for (const Tensors& found : {by_head_loss(head), with_gradients(head)}) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), want[i].sizes());
      EXPECT_LE(largest(found[i] - want[i]), allowed_error(c.dtype, torch[i], want[i]))
          << "output " << i << ", " << c.rows << " x " << c.vocabulary << " x " << c.width << " "
          << c.dtype << (c.strided ? " strided" : "");
    }
  }
}

TEST_P(HeadLossOps, ParityWithTheReference) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (bool strided : {false, true}) {
      for (HeadCase c : head_shapes) {
        c.dtype = dtype;
        c.strided = strided;
        expect_parity(c);
      }
    }
  }
}

// Row 0 counts and holds a NaN, row 1 does not count and holds one, row 2 an infinity.
TEST_P(HeadLossOps, NanAndInfinityPropagateWhereTheRowCounts) {
  Head head = make_head({6, 37, 4});
  head.hidden[0][2] = NAN;
  head.hidden[1][0] = NAN;
  head.hidden[2][1] = INFINITY;
  const Tensors want = want_of(head);
  EXPECT_TRUE(want[0][0].isnan().item<bool>());
  for (const Tensors& found : {by_head_loss(head), with_gradients(head)}) {
    EXPECT_EQ(found[0][1].item<double>(), 0);
    EXPECT_EQ(largest(found[1][1]), 0);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], want[i], 1e-4, 1e-4, /*equal_nan=*/true)) << i;
    }
  }
}

TEST_P(HeadLossOps, NothingCountedIsAllZeros) {
  Head head = make_head({70, 19, 6});
  head.targets.fill_(ops::not_counted);
  for (const Tensors& found : {by_head_loss(head), with_gradients(head)}) {
    for (const Tensor& tensor : found) EXPECT_EQ(largest(tensor), 0);
  }
}

TEST_P(HeadLossOps, LargeLogitsDoNotOverflow) {
  const Tensor weight = at::tensor({1.0f, 0.0f, -1.0f}).view({3, 1});
  const Tensor losses = ops::head_loss(at::full({1, 1}, 1000.0f), weight, at::ones({1}, at::kLong));
  EXPECT_EQ(losses.item<float>(), 1000);
}

TEST_P(HeadLossOps, BitsDoNotDependOnThreads) {
  const Head head = make_head({200, 129, 24});
  const Tensors one = with_gradients(head);
  at::set_num_threads(2);
  const Tensors two = with_gradients(head);
  at::set_num_threads(1);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << i;
}

TEST_P(HeadLossOps, WithoutTheWeightsGradientTheRestIsTheSame) {
  const Head head = make_head({66, 19, 6});
  const auto [losses, dhidden, dweight] =
      ops::head_loss_with_gradients(head.scales, head.hidden, head.weight, head.targets, false);
  const Tensors all = with_gradients(head);
  EXPECT_TRUE(at::equal(losses.to(at::kDouble), all[0]));
  EXPECT_TRUE(at::equal(dhidden.to(at::kDouble), all[1]));
  EXPECT_EQ(dweight.sizes(), at::IntArrayRef({0}));
}

// Within 1.2 times weight, hidden states and the gradients of both, of which the gradients and the
// logits are allocated here.
TEST_P(HeadLossOps, MemoryIsBoundedWhateverTheVocabulary) {
  if (GetParam() == "aten") GTEST_SKIP() << "torch's softmax keeps a second chunk of logits";
  for (std::int64_t vocabulary : {257, 4096, 20000}) {
    const std::int64_t rows = 512, width = 384;
    const Head head = make_head({rows, vocabulary, width});
    const std::int64_t inputs = 4 * width * (rows + vocabulary);
    const std::int64_t peak = CountingAllocator::peak_of([&] {
      ops::head_loss_with_gradients(head.scales, head.hidden, head.weight, head.targets);
    });
    EXPECT_GE(peak, inputs) << "both gradients at least";
    EXPECT_LE(inputs + peak, 1.2 * 2 * inputs) << vocabulary;
  }
}

TEST(HeadLossChunks, DependOnShapesAlone) {
  EXPECT_EQ(ops::head_loss_chunk_rows(4096, 8192, 1024), 512);
  EXPECT_EQ(ops::head_loss_chunk_rows(4096, 8192, 512), 256);
  EXPECT_EQ(ops::head_loss_chunk_rows(4096, 151936, 256), 80);
  EXPECT_EQ(ops::head_loss_chunk_rows(4, 151936, 64), 64);
  EXPECT_EQ(ops::head_loss_chunk_rows(0, 1, 1), 64);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(HeadLossMessages, ATargetThatIsNoIdIsNamedWithItsRow) {
  const Head head = make_head({9, 5, 2});
  for (const auto& [value, row] : {std::pair{5, 7}, {-1, 0}, {-101, 8}}) {
    const Tensor targets = head.targets.clone();
    targets[row] = value;
    const std::string expected = "targets holds " + std::to_string(value) + " at row " +
                                 std::to_string(row) + "; expected an id from 0 to 4";
    EXPECT_THAT(refusal([&] { ops::head_loss(head.hidden, head.weight, targets); }),
                testing::HasSubstr("kha::head_loss: " + expected));
    EXPECT_THAT(refusal([&] {
                  ops::head_loss_with_gradients(head.scales, head.hidden, head.weight, targets);
                }),
                testing::HasSubstr("kha::head_loss_with_gradients: " + expected));
  }
}

}  // namespace
}  // namespace kha::test
