// Rows of several documents: with the mask a document does not feel its neighbours, and the
// positions begin anew where that is wanted.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "model/decoder.h"
#include "model/initialise.h"
#include "train/gradient.h"

namespace kha {
namespace {

using Document = std::vector<int64_t>;

constexpr Packing both{.document_mask = true, .reset_positions = true};

ModelConfig small(const std::string& setting) {
  ModelConfig c;
  c.hidden_size = 24;
  c.intermediate_size = 40;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.initializer_range = 0.3;
  c.knocks.all = named_setting(setting, "test").knocks;
  return c;
}

Document text(int64_t length, int64_t key) {
  Document ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back((key + 37 * i * i) % 257);
  return ids;
}

// One row a list of documents; each predicts its own next token, its last predicts nothing.
Batch pack(const std::vector<std::vector<Document>>& rows) {
  Batch b;
  b.rows = static_cast<int64_t>(rows.size());
  for (const auto& row : rows) {
    int64_t segment = 0;
    for (const Document& document : row) {
      for (size_t i = 0; i < document.size(); ++i) {
        const bool last = i + 1 == document.size();
        b.inputs.push_back(document[i]);
        b.targets.push_back(last ? 0 : document[i + 1]);
        b.counted.push_back(!last);
        b.documents.push_back(segment);
        b.segments.push_back(segment);
        b.positions.push_back(static_cast<int64_t>(i));
        b.counted_targets += !last;
      }
      ++segment;
    }
  }
  b.context = static_cast<int64_t>(b.inputs.size()) / b.rows;
  return b;
}

at::Tensor hidden(const ModelConfig& config, const Batch& batch, const Packing& packing) {
  const at::NoGradGuard no_grad;
  const Parameters parameters = initialise(config, KnockStart::random, 3);
  const BatchTensors tensors = to_tensors(batch, packing, at::kCPU);
  const Decoder decoder(config, parameters, KnockPlan::weight_space, batch.context);
  return decoder.hidden(tensors.ids, nullptr, tensors.layout);
}

const std::vector<std::string> settings{"baseline", "kha-linear", "kha-mlp", "kha-gate-v"};

TEST(Packing, ADocumentDoesNotFeelItsNeighbourByOneBit) {
  const Document second = text(9, 5);
  for (const auto& setting : settings) {
    const ModelConfig config = small(setting);
    for (const bool reset : {false, true}) {
      const Packing packing{.document_mask = true, .reset_positions = reset};
      const at::Tensor one = hidden(config, pack({{text(7, 1), second}}), packing);
      const at::Tensor other = hidden(config, pack({{text(7, 90), second}}), packing);
      EXPECT_TRUE(at::equal(one.narrow(1, 7, 9), other.narrow(1, 7, 9))) << setting << reset;
      EXPECT_FALSE(at::equal(one.narrow(1, 0, 7), other.narrow(1, 0, 7))) << setting;
    }
  }
}

TEST(Packing, WithoutTheMaskItDoes) {
  const ModelConfig config = small("baseline");
  for (const bool reset : {false, true}) {
    const Packing packing{.document_mask = false, .reset_positions = reset};
    const at::Tensor one = hidden(config, pack({{text(7, 1), text(9, 5)}}), packing);
    const at::Tensor other = hidden(config, pack({{text(7, 90), text(9, 5)}}), packing);
    EXPECT_FALSE(at::equal(one.narrow(1, 7, 9), other.narrow(1, 7, 9)));
  }
}

TEST(Packing, MaskedDocumentsWithPositionsOfTheirOwnAreAsIfAlone) {
  const std::vector<Document> documents{text(7, 1), text(1, 50), text(8, 5)};
  for (const auto& setting : settings) {
    const ModelConfig config = small(setting);
    const at::Tensor packed = hidden(config, pack({documents}), both);
    int64_t begin = 0;
    for (const Document& document : documents) {
      const auto length = static_cast<int64_t>(document.size());
      const at::Tensor alone = hidden(config, pack({{document}}), {});
      EXPECT_LT((packed.narrow(1, begin, length) - alone).abs().max().item<float>(), 2e-5)
          << setting;
      begin += length;
    }
  }
}

// Rotation knows differences of positions only, so behind the mask the reset shows in rounding
// alone; without the mask it changes which token is how far away.
TEST(Packing, PositionsMatterAcrossDocumentsOnly) {
  const ModelConfig config = small("baseline");
  const Batch batch = pack({{text(7, 1), text(9, 5)}});
  const auto second = [&](bool mask, bool reset) {
    return hidden(config, batch, {.document_mask = mask, .reset_positions = reset}).narrow(1, 7, 9);
  };
  EXPECT_LT((second(true, false) - second(true, true)).abs().max().item<float>(), 2e-5);
  EXPECT_GT((second(false, false) - second(false, true)).abs().max().item<float>(), 1e-3);
}

struct Step {
  double loss;
  std::vector<at::Tensor> gradients;
};

Step gradient_of(const ModelConfig& config, const std::vector<Batch>& batches,
                 Recompute recompute = Recompute::none) {
  const Parameters parameters = initialise(config, KnockStart::random, 3).cast(at::kDouble);
  for (const auto& [name, value] : parameters.entries()) at::Tensor(value).requires_grad_(true);
  Step step{accumulate_gradient(config, parameters, batches, both,
                                {.dtype = at::kDouble, .recompute = recompute}),
            {}};
  for (const auto& [name, value] : parameters.entries()) step.gradients.push_back(value.grad());
  return step;
}

TEST(Packing, TheGradientIsThatOfTheDocumentsOneByOne) {
  const Document a = text(7, 1), b = text(9, 5), c = text(16, 8);
  for (const auto& setting : settings) {
    const ModelConfig config = small(setting);
    const Step packed = gradient_of(config, {pack({{a, b}, {c}})});
    const Step alone = gradient_of(config, {pack({{a}}), pack({{b}}), pack({{c}})});
    EXPECT_NEAR(packed.loss, alone.loss, 1e-12) << setting;
    for (size_t i = 0; i < packed.gradients.size(); ++i) {
      EXPECT_TRUE(at::allclose(packed.gradients[i], alone.gradients[i], 1e-9, 1e-12)) << setting;
    }
    const Step again = gradient_of(config, {pack({{a, b}, {c}})}, Recompute::layer);
    EXPECT_EQ(again.loss, packed.loss) << setting;
  }
}

}  // namespace
}  // namespace kha
