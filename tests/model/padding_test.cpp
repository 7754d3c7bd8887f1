// Padded batches: nobody sees padding, it leaves no gradient, and every row is as if alone, in one
// pass and from the cache.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/attention_systems.h"
#include "modules/causal.h"
#include "modules/kv_cache.h"

namespace kha::test {
namespace {

// Each system bare, and with the most that it may take on every slot.
std::vector<SystemCase> padded_systems() {
  std::vector<SystemCase> cases = bare_systems();
  for (auto& [name, config] : bare_systems()) {
    const auto& system = attention_declaration(config.attention, "");
    for (const KnockSlot slot : knock_slots) {
      config.knocks.all.at(slot) = system.place(slot).legal.back();
    }
    cases.push_back({name + ", maps", config});
    config.rotary_layout = "interleaved";
    cases.push_back({name + ", maps, interleaved", config});
  }
  return cases;
}

// Rows of these lengths with padding in front (or behind), padded to the longest.
struct Padded {
  at::Tensor ids_BT, text_BT;
  std::vector<at::Tensor> rows;  // [1, length] each, without padding

  Padded(const std::vector<int64_t>& lengths, bool left) {
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const auto count = static_cast<int64_t>(lengths.size());
    const at::Tensor all = some_ids(count, longest);
    ids_BT = at::full({count, longest}, 9, at::kLong);
    text_BT = at::zeros({count, longest}, at::kBool);
    for (int64_t b = 0; b < count; ++b) {
      rows.push_back(all[b].narrow(0, 0, lengths[b]).unsqueeze(0));
      const int64_t begin = left ? longest - lengths[b] : 0;
      ids_BT[b].narrow(0, begin, lengths[b]).copy_(rows[b][0]);
      text_BT[b].narrow(0, begin, lengths[b]).fill_(true);
    }
  }

  std::shared_ptr<const PackedLayout> layout() const {
    return std::make_shared<const PackedLayout>(
        PackedLayout{.lengths = {}, .positions_N = {}, .text_BS = text_BT});
  }
  // The text of row b of [B, T, ..].
  at::Tensor text_of(const at::Tensor& x, int64_t b) const { return x[b].index({text_BT[b]}); }
};

TEST(Padding, EachRowIsAsIfAloneWhereverItsPaddingIs) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : padded_systems()) {
    const Parameters parameters = random_parameters(config);
    for (const bool left : {true, false}) {
      const Padded batch({3, 7, 1}, left);
      const Decoder decoder(config, parameters, KnockPlan::activation_space, 7);
      const at::Tensor together =
          decoder.logits(decoder.hidden(batch.ids_BT, nullptr, batch.layout()));
      for (int64_t b = 0; b < 3; ++b) {
        const at::Tensor alone = logits_of(config, parameters, batch.rows[b])[0];
        EXPECT_LT(largest(batch.text_of(together, b) - alone), 1e-10 * largest(alone))
            << name << ", row " << b << (left ? ", left" : ", right");
      }
      EXPECT_TRUE(at::isfinite(together).all().item<bool>()) << name;
    }
  }
}

TEST(Padding, TheAttentionOfPaddingIsZeroAndItsIdChangesNothing) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : padded_systems()) {
    const auto attention = make_attention(config, random_parameters(config), 0, {});
    const Padded batch({3, 7, 0}, true);
    const RotaryTable rotary(7, config.rotary_width(), 1e4, at::kDouble, at::kCPU, {},
                             config.rotary_layout == "interleaved");
    const at::Tensor x = at::sin(at::arange(3 * 7 * config.hidden_size, at::kDouble) * 1.3)
                             .view({3, 7, config.hidden_size});
    const auto run = [&](const at::Tensor& input) {
      const Projected p = attention->project(input, rotary, 0);
      return attention->attend(p.queries_BTHD, p.entry, batch.layout().get());
    };
    const at::Tensor heads = run(x);
    const at::Tensor padding = batch.text_BT.logical_not();
    EXPECT_EQ(largest(heads.index({padding})), 0) << name;
    EXPECT_GT(largest(batch.text_of(heads, 0)), 0) << name;
    const at::Tensor other = run(x + padding.unsqueeze(2) * 50.0);
    EXPECT_TRUE(other.equal(heads)) << name;
  }
}

// The gradients of all parameters for a weighted sum of the logits of text.
std::vector<at::Tensor> gradients(const ModelConfig& config, const std::vector<Padded>& batches) {
  const Parameters parameters = random_parameters(config);
  std::vector<at::Tensor> inputs;
  for (const auto& [name, value] : parameters.entries()) {
    inputs.push_back(at::Tensor(value).requires_grad_());
  }
  for (const Padded& batch : batches) {
    const Decoder decoder(config, parameters, KnockPlan::activation_space, batch.ids_BT.size(1));
    const at::Tensor logits = decoder.logits(decoder.hidden(batch.ids_BT, nullptr, batch.layout()));
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (size_t b = 0; b < batch.rows.size(); ++b) {
      const at::Tensor text = batch.text_of(logits, static_cast<int64_t>(b));
      sum = sum + (text * at::cos(at::arange(text.numel(), at::kDouble)).view_as(text)).sum();
    }
    torch::autograd::backward({sum}, {});
  }
  std::vector<at::Tensor> found;
  for (const at::Tensor& input : inputs) found.push_back(input.grad());
  return found;
}

// A row of nothing but padding and the padding of the others: as if neither were there.
TEST(Padding, TheGradientIsThatOfTheTextAlone) {
  for (const auto& [name, config] : padded_systems()) {
    for (const bool left : {true, false}) {
      const Padded batch({3, 7, 0}, left);
      Padded short_row({3}, true), long_row({7}, true);
      short_row.ids_BT = short_row.rows[0] = batch.rows[0];
      long_row.ids_BT = long_row.rows[0] = batch.rows[1];
      const auto together = gradients(config, {batch}),
                 alone = gradients(config, {short_row, long_row});
      for (size_t i = 0; i < alone.size(); ++i) {
        ASSERT_TRUE(at::isfinite(together[i]).all().item<bool>()) << name << ", tensor " << i;
        EXPECT_LT(largest(together[i] - alone[i]), 1e-10 * (largest(alone[i]) + 1))
            << name << ", tensor " << i;
      }
    }
  }
}

// Greedy: 20 ids behind each prompt, from the cache, the layout growing by a column a step.
std::vector<std::vector<int64_t>> greedy(const ModelConfig& config, const Parameters& parameters,
                                         const at::Tensor& ids, at::Tensor text) {
  constexpr int64_t steps = 20;
  const at::NoGradGuard no_grad;
  const int64_t batch = ids.size(0), prompt = ids.size(1);
  const Decoder decoder(config, parameters, KnockPlan::activation_space, prompt + steps);
  KvCache cache(config, batch, prompt + steps, parameters.entries()[0].second.scalar_type(),
                at::kCPU);
  std::vector<std::vector<int64_t>> written(batch);
  at::Tensor next = ids;
  for (int64_t step = 0; step < steps; ++step) {
    const auto layout = std::make_shared<const PackedLayout>(
        PackedLayout{.lengths = {}, .positions_N = {}, .text_BS = text});
    const at::Tensor hidden =
        decoder.hidden(next, &cache, text.all().item<bool>() ? nullptr : layout);
    next = decoder.logits(hidden.select(1, hidden.size(1) - 1)).argmax(-1, /*keepdim=*/true);
    for (int64_t b = 0; b < batch; ++b) written[b].push_back(next[b].item<int64_t>());
    text = at::cat({text, at::ones({batch, 1}, at::kBool)}, 1);
  }
  return written;
}

TEST(Padding, GreedyTextOfALeftPaddedBatchIsThatOfEachPromptAlone) {
  for (const auto& [name, config] : padded_systems()) {
    const Padded batch({3, 7}, true);
    for (const auto dtype : {at::kDouble, at::kFloat}) {
      const Parameters parameters = random_parameters(config).cast(dtype);
      const auto together = greedy(config, parameters, batch.ids_BT, batch.text_BT);
      for (int64_t b = 0; b < 2; ++b) {
        const at::Tensor& row = batch.rows[b];
        const auto alone = greedy(config, parameters, row, at::ones(row.sizes(), at::kBool));
        EXPECT_EQ(together[b], alone[0]) << name << ", row " << b << ", " << dtype;
      }
    }
  }
}

TEST(Padding, StretchesBehindAPaddedPrefillAreOnePass) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : padded_systems()) {
    const Parameters parameters = random_parameters(config);
    const Padded batch({9, 13, 5}, true);
    const Decoder decoder(config, parameters, KnockPlan::activation_space, 13);
    const at::Tensor whole = decoder.hidden(batch.ids_BT, nullptr, batch.layout());
    KvCache cache(config, 3, 13, at::kDouble, at::kCPU);
    std::vector<at::Tensor> parts;
    for (const int64_t length : {7, 1, 2, 3}) {
      const int64_t begin = cache.length();
      const auto layout = std::make_shared<const PackedLayout>(PackedLayout{
          .lengths = {}, .positions_N = {}, .text_BS = batch.text_BT.narrow(1, 0, begin + length)});
      parts.push_back(decoder.hidden(batch.ids_BT.narrow(1, begin, length), &cache, layout));
    }
    const at::Tensor difference = at::cat(parts, 1) - whole;
    for (int64_t b = 0; b < 3; ++b) {
      EXPECT_LT(largest(batch.text_of(difference, b)), 1e-10 * largest(whole)) << name << b;
    }
  }
}

// So that not even a value that is no number would reach a sum.
TEST(Padding, WhatACacheKeepsOfPaddingIsZero) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : bare_systems()) {
    const Parameters parameters = random_parameters(config);
    const Padded batch({3, 7}, true);
    const Decoder decoder(config, parameters, KnockPlan::activation_space, 7);
    KvCache cache(config, 2, 7, at::kDouble, at::kCPU);
    decoder.hidden(batch.ids_BT, &cache, batch.layout());
    const RotaryTable rotary(7, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
    const at::Tensor nothing = at::zeros({2, 0, config.hidden_size}, at::kDouble);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const auto attention = make_attention(config, parameters, layer, {});
      for (const at::Tensor& kept :
           cache.append(layer, attention->project(nothing, rotary, 0).entry)) {
        EXPECT_EQ(largest(kept.index({batch.text_BT.logical_not()})), 0) << name;
        EXPECT_GT(largest(batch.text_of(kept, 0)), 0) << name;
      }
    }
  }
}

// Case P28: weight zero exactly, whatever stands behind the mask.
TEST(Padding, AHiddenKeyHasWeightZeroWhateverItsScore) {
  at::Tensor scores = at::zeros({1, 2, 3, 4}, at::kDouble);
  scores.select(3, 1).fill_(50);
  PackedLayout layout{.lengths = {},
                      .positions_N = {},
                      .text_BS = at::tensor({1, 0, 1, 1}, at::kLong).to(at::kBool).unsqueeze(0)};
  const at::Tensor weights = causal_softmax(scores, &layout);
  EXPECT_EQ(largest(weights.select(3, 1)), 0);
  // The first query stands on the padding at position 1: it sees nobody.
  EXPECT_EQ(largest(weights.select(2, 0)), 0);
  // The others: 2 and 3 texts seen, the same as -inf added to the scores.
  EXPECT_EQ(weights[0][0][1][0].item<double>(), 0.5);
  EXPECT_NEAR(weights[0][1][2][3].item<double>(), 1.0 / 3, 1e-15);
  scores.select(3, 1).fill_(-std::numeric_limits<double>::infinity());
  EXPECT_TRUE(causal_softmax(scores, &layout).equal(weights));
}

TEST(Padding, DocumentsAndPaddingAreBothHidden) {
  // One row of 6: documents of 4 and 2, the first place padding.
  const PackedLayout layout{
      .lengths = {4, 2},
      .positions_N = {},
      .text_BS = at::tensor({0, 1, 1, 1, 1, 1}, at::kLong).to(at::kBool).unsqueeze(0)};
  const at::Tensor mask = causal_mask(6, 6, &layout, at::kCPU)[0][0];
  const std::vector<int64_t> seen{0, 1, 2, 3, 1, 2};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(mask[i].sum().item<int64_t>(), seen[i]) << i;
  EXPECT_FALSE(causal_mask(1, 9, nullptr, at::kCPU).defined());
}

}  // namespace
}  // namespace kha::test
