// Faults that public threads report of attention code, each as a small input with a known answer.
// Those of padding are in padding_test.cpp, those of the formulas, of decoding and of folding in
// attention_systems_test.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/thrown.h"
#include "kha/ops/knock.h"
#include "model/attention_systems.h"
#include "modules/causal.h"
#include "modules/kv_cache.h"

namespace kha::test {
namespace {

at::Tensor waves(at::IntArrayRef shape, double speed) {
  const int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * speed + 0.2).view(shape);
}

// q [B, T, H, D], k and v [B, S, H_kv, ..]: head by head, query by query.
at::Tensor written_out(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t length = q.size(1), cached = k.size(1), group = q.size(2) / k.size(2);
  std::vector<at::Tensor> batch;
  for (int64_t b = 0; b < q.size(0); ++b) {
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < length; ++i) {
      std::vector<at::Tensor> heads;
      for (int64_t h = 0; h < q.size(2); ++h) {
        const int64_t seen = i + cached - length + 1;
        const at::Tensor keys = k[b].select(1, h / group).narrow(0, 0, seen);
        const at::Tensor scores = at::mv(keys, q[b][i][h]) / std::sqrt(double(q.size(3)));
        const at::Tensor weights = at::exp(scores - scores.max());
        heads.push_back(
            at::mv(v[b].select(1, h / group).narrow(0, 0, seen).t(), weights / weights.sum()));
      }
      rows.push_back(at::stack(heads));
    }
    batch.push_back(at::stack(rows));
  }
  return at::stack(batch);
}

// Case 95, P3: 4 query heads, 2 KV heads; the values of KV head 1 are zero.
TEST(AttentionPitfalls, QueryHeadsReadKvHeadsInGroups) {
  at::Tensor v = at::ones({1, 3, 2, 4}, at::kDouble);
  v.select(2, 1).zero_();
  for (const int64_t length : {1, 2, 3}) {
    const at::Tensor y =
        causal_attention(waves({1, length, 4, 4}, 1.1), waves({1, 3, 2, 4}, 0.7), v);
    EXPECT_TRUE(at::allclose(y.narrow(2, 0, 2), at::ones({1, length, 2, 4}, at::kDouble)));
    EXPECT_EQ(largest(y.narrow(2, 2, 2)), 0);
  }
}

struct Shape {
  int64_t length, cached, heads, kv_heads, width, value_width;
};

// P4 (more positions than heads and fewer), P12 (one query, one channel), P13 (20 channels), P14
// (values narrower and wider than keys).
const std::vector<Shape> shapes{{7, 7, 4, 2, 6, 6},     {3, 3, 8, 2, 6, 6},  {2, 9, 4, 1, 6, 6},
                                {1, 5, 4, 4, 1, 1},     {1, 1, 2, 2, 6, 6},  {5, 5, 4, 2, 20, 20},
                                {3, 6, 4, 4, 192, 128}, {4, 4, 2, 1, 6, 10}, {1, 6, 4, 2, 4, 10},
                                {3, 8, 2, 2, 264, 264}};

TEST(AttentionPitfalls, EveryShapeIsTheFormulaForwardAndBackward) {
  for (const Shape& s : shapes) {
    const auto run = [&](const auto& attention) {
      std::vector<at::Tensor> all{
          waves({2, s.length, s.heads, s.width}, 1.1).requires_grad_(),
          waves({2, s.cached, s.kv_heads, s.width}, 0.7).requires_grad_(),
          waves({2, s.cached, s.kv_heads, s.value_width}, 0.3).requires_grad_()};
      const at::Tensor y = attention(all[0], all[1], all[2]);
      torch::autograd::backward({(y * waves(y.sizes(), 2.3)).sum()}, {});
      return std::vector<at::Tensor>{y, all[0].grad(), all[1].grad(), all[2].grad()};
    };
    const auto found =
        run([](const auto& q, const auto& k, const auto& v) { return causal_attention(q, k, v); });
    const auto right = run(written_out);
    for (size_t i = 0; i < right.size(); ++i) {
      EXPECT_LT(largest(found[i] - right[i]), 1e-12)
          << s.length << " of " << s.cached << ", " << s.width << ", tensor " << i;
    }
  }
}

// P10, P11, P12: strides of any kind, forward and backward, with a mask and without.
TEST(AttentionPitfalls, StridesChangeNothing) {
  const PackedLayout padded{
      .lengths = {},
      .positions_N = {},
      .text_BS = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).to(at::kBool).view({2, 5})};
  for (const PackedLayout* layout : {static_cast<const PackedLayout*>(nullptr), &padded}) {
    const auto run = [&](bool contiguous) {
      // [B, H, T, D] as [B, T, H, D]; values also with their channels as the slowest dimension.
      std::vector<at::Tensor> leaves{waves({2, 4, 5, 6}, 1.1).requires_grad_(),
                                     waves({2, 2, 5, 6}, 0.7).requires_grad_(),
                                     waves({6, 2, 5, 2}, 0.3).requires_grad_()};
      std::vector<at::Tensor> views{leaves[0].transpose(1, 2), leaves[1].transpose(1, 2),
                                    leaves[2].permute({3, 2, 1, 0})};
      if (contiguous)
        for (auto& view : views) view = view.contiguous();
      const at::Tensor y = causal_attention(views[0], views[1], views[2], layout).transpose(1, 2);
      torch::autograd::backward({(y * waves({2, 6, 4, 5}, 2.3).permute({0, 2, 3, 1})).sum()}, {});
      return std::vector<at::Tensor>{y, leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    const auto strided = run(false), plain = run(true);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_LT(largest(strided[i] - plain[i]), 1e-14) << i;
  }
}

// P16: sums over many keys are not taken in bfloat16.
TEST(AttentionPitfalls, BfloatAveragesOverManyKeys) {
  const at::Tensor v = waves({1, 4096, 1, 8}, 0.01).abs() + 1, narrow = v.to(at::kBFloat16);
  const at::Tensor right = narrow.to(at::kDouble).mean(1).view({8});
  for (const int64_t length : {1, 4}) {
    const at::Tensor q = at::zeros({1, length, 1, 8}, at::kBFloat16);
    const at::Tensor y = causal_attention(q, narrow, narrow).select(1, length - 1).view({8});
    EXPECT_LT(largest(y.to(at::kDouble) - right), 1e-2);
  }
  const at::Tensor weights = causal_softmax(at::zeros({1, 1, 1, 4096}, at::kBFloat16));
  EXPECT_EQ(weights.scalar_type(), at::kFloat);
  EXPECT_NEAR(weights.sum().item<double>(), 1, 1e-6);
}

// P18: at position 4095 the angle is that of position 4095, rounded once.
TEST(AttentionPitfalls, RotaryAnglesAreWideInANarrowModel) {
  constexpr int64_t width = 8, position = 4095;
  for (const bool interleaved : {false, true}) {
    const RotaryTable table(position + 1, width, 1e4, at::kBFloat16, at::kCPU, {}, interleaved);
    for (int64_t i = 0; i < width / 2; ++i) {
      const int64_t first = interleaved ? 2 * i : i,
                    second = interleaved ? 2 * i + 1 : i + width / 2;
      at::Tensor x = at::zeros({1, 1, 1, width}, at::kBFloat16);
      x[0][0][0][first] = 1;
      const at::Tensor y = table.rotate(x, position).view({width}).to(at::kDouble);
      const double angle = position * std::pow(1e4, -2.0 * i / width);
      EXPECT_NEAR(y[first].item<double>(), std::cos(angle), 4e-3) << i;
      EXPECT_NEAR(y[second].item<double>(), std::sin(angle), 4e-3) << i;
    }
  }
}

struct OneLayer {
  const ModelConfig& config;
  std::unique_ptr<Attention> attention;
  RotaryTable rotary;

  OneLayer(const ModelConfig& c, const Parameters& parameters)
      : config(c),
        attention(make_attention(c, parameters, 0, KnockPlan::activation_space)),
        rotary(32, c.rotary_width(), c.rope_theta, at::kDouble, at::kCPU, {},
               c.rotary_layout == "interleaved") {}

  Projected project(int64_t length, int64_t first = 0) const {
    return attention->project(waves({1, length, config.hidden_size}, 1.7), rotary, first);
  }
  at::Tensor heads(const Projected& p) const {
    return attention->attend(p.queries_BTHD, p.entry, nullptr);
  }
};

// P6: the last channels of a split query are the rotated ones, in gqa the first. Without them its
// position is nothing to the scores; with them it is.
TEST(AttentionPitfalls, OnlyTheRotatedChannelsKnowThePosition) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : bare_systems()) {
    if (config.rope_head_dim == 0) continue;
    const OneLayer layer(config, random_parameters(config));
    const auto shifted_queries = [&](bool rotated, int64_t first) {
      Projected p = layer.project(6);
      p.queries_BTHD = layer.project(6, first).queries_BTHD.clone();
      const int64_t width = p.queries_BTHD.size(3);
      const int64_t begin = config.attention == "gqa" ? 0 : width - config.rope_head_dim;
      if (!rotated) p.queries_BTHD.narrow(3, begin, config.rope_head_dim).zero_();
      return layer.heads(p);
    };
    EXPECT_TRUE(shifted_queries(false, 0).equal(shifted_queries(false, 5))) << name;
    EXPECT_GT(largest(shifted_queries(true, 0) - shifted_queries(true, 5)), 1e-4) << name;
  }
}

// P23 for latents, and its like elsewhere: a head's values are its own rows.
TEST(AttentionPitfalls, OneHeadsValuesReachThatHeadAlone) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : bare_systems()) {
    if (config.attention_bias) continue;          // a bias would be left of the value
    if (config.attention == "talking") continue;  // its heads share on purpose
    const auto& system = attention_declaration(config.attention, "");
    const KnockPlace& place = system.place(KnockSlot::v);
    if (place.linear_into != FoldHome::projection) continue;  // values are those of `gta`
    const HeadRows rows = place.rows(config);
    const int64_t last = rows.heads - 1, readers = config.num_attention_heads / rows.heads;
    for (const int64_t length : {6, 1}) {
      const Parameters parameters = random_parameters(config);
      const at::Tensor before =
          OneLayer(config, parameters).heads(OneLayer(config, parameters).project(length));
      parameters.at(attention_prefix(0) + place.projection(config) + ".weight")
          .narrow(0, rows.begin + last * rows.stride, rows.width)
          .zero_();
      const at::Tensor after =
          OneLayer(config, parameters).heads(OneLayer(config, parameters).project(length));
      EXPECT_EQ(largest(after.narrow(2, last * readers, readers)), 0) << name;
      if (last > 0) {
        EXPECT_TRUE(after.narrow(2, 0, last * readers).equal(before.narrow(2, 0, last * readers)))
            << name;
      }
    }
  }
}

// P25: a norm over all heads together would let one head's scale reach the others.
TEST(AttentionPitfalls, ALargerQueryHeadChangesNoOtherHead) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : bare_systems()) {
    if (config.attention == "talking" || config.attention == "collaborative") continue;
    const Parameters parameters = random_parameters(config);
    const auto& place = attention_declaration(config.attention, "").place(KnockSlot::q);
    const HeadRows rows = place.rows(config);
    const at::Tensor before =
        OneLayer(config, parameters).heads(OneLayer(config, parameters).project(6));
    parameters.at(attention_prefix(0) + place.projection(config) + ".weight")
        .narrow(0, rows.stride, rows.stride)
        .mul_(10);
    const at::Tensor after =
        OneLayer(config, parameters).heads(OneLayer(config, parameters).project(6));
    for (int64_t h = 0; h < config.num_attention_heads; ++h) {
      if (h == 1) continue;
      EXPECT_TRUE(after.select(2, h).equal(before.select(2, h))) << name << ", head " << h;
    }
  }
}

// P20, P21: nothing to do is done: no row, or no new token behind a filled cache.
TEST(AttentionPitfalls, EmptyBatchesAndEmptyStretches) {
  for (const auto& [name, config] : legal_systems()) {
    if (config.knocks.all.q != config.knocks.all.v) continue;
    const Parameters parameters = random_parameters(config);
    for (const auto plan : {KnockPlan::activation_space, KnockPlan::weight_space}) {
      const Decoder decoder(config, parameters, plan, 8);
      {
        const at::NoGradGuard no_grad;
        KvCache cache(config, 2, 8, at::kDouble, at::kCPU);
        decoder.hidden(some_ids(2, 5), &cache);
        const at::Tensor none =
            decoder.logits(decoder.hidden(at::zeros({2, 0}, at::kLong), &cache));
        EXPECT_EQ(none.sizes(), (std::vector<int64_t>{2, 0, config.vocab_size})) << name;
        EXPECT_EQ(cache.length(), 5);
        KvCache empty(config, 0, 8, at::kDouble, at::kCPU);
        for (const int64_t length : {5, 1}) {
          const at::Tensor y = decoder.hidden(at::zeros({0, length}, at::kLong), &empty);
          EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, length, config.hidden_size})) << name;
        }
      }
      std::vector<at::Tensor> inputs;
      for (const auto& [key, value] : parameters.entries())
        inputs.push_back(at::Tensor(value).requires_grad_());
      const Decoder trained(config, parameters, plan, 8);
      torch::autograd::backward(
          {trained.logits(trained.hidden(at::zeros({0, 5}, at::kLong))).sum()}, {});
      for (at::Tensor& input : inputs) {
        if (input.grad().defined()) {
          EXPECT_EQ(largest(input.grad()), 0) << name;
        }
        input.mutable_grad() = at::Tensor();
        input.requires_grad_(false);
      }
    }
  }
}

// P2: what no position was written to is not read, whatever stands there.
TEST(AttentionPitfalls, UnusedRoomOfACacheIsNeverRead) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, config] : bare_systems()) {
    const Parameters parameters = random_parameters(config);
    const at::Tensor ids = some_ids(2, 9), whole = logits_of(config, parameters, ids);
    const Decoder decoder(config, parameters, KnockPlan::activation_space, 40);
    KvCache cache(config, 2, 40, at::kDouble, at::kCPU);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const OneLayer first(config, parameters);
      CacheEntry nothing = first.project(1).entry;
      for (at::Tensor& tensor : nothing) tensor = tensor.narrow(1, 0, 0).expand({2, -1, -1, -1});
      for (const at::Tensor& view : cache.append(layer, nothing)) {
        at::empty({0}, view.options()).set_(view.storage()).fill_(NAN);
      }
    }
    std::vector<at::Tensor> logits;
    for (const int64_t length : {5, 1, 3}) {
      logits.push_back(
          decoder.logits(decoder.hidden(ids.narrow(1, cache.length(), length), &cache)));
    }
    EXPECT_LT(largest(at::cat(logits, 1) - whole), 1e-10 * largest(whole)) << name;
  }
}

// P29: decoding in between leaves training alone; gradients through a cache are refused, since it
// is written in place.
TEST(AttentionPitfalls, ADecodeStepDoesNotDisturbATrainingStep) {
  for (const auto& [name, config] : bare_systems()) {
    const at::Tensor ids = some_ids(2, 6);
    const auto gradients = [&](bool decode) {
      const Parameters parameters = random_parameters(config);
      std::vector<at::Tensor> found;
      for (const auto& [key, value] : parameters.entries()) at::Tensor(value).requires_grad_();
      const Decoder decoder(config, parameters, KnockPlan::activation_space, 6);
      const at::Tensor loss = decoder.logits(decoder.hidden(ids)).pow(2).sum();
      if (decode) {
        const at::NoGradGuard no_grad;
        KvCache cache(config, 2, 6, at::kDouble, at::kCPU);
        decoder.hidden(ids.narrow(1, 0, 4), &cache);
        decoder.hidden(ids.narrow(1, 4, 2), &cache);
      }
      torch::autograd::backward({loss}, {});
      for (const auto& [key, value] : parameters.entries()) found.push_back(value.grad());
      return found;
    };
    const auto alone = gradients(false), between = gradients(true);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].equal(between[i])) << name << i;

    const Parameters parameters = random_parameters(config);
    for (const auto& [key, value] : parameters.entries()) at::Tensor(value).requires_grad_();
    const Decoder decoder(config, parameters, KnockPlan::activation_space, 6);
    KvCache cache(config, 2, 6, at::kDouble, at::kCPU);
    EXPECT_NE(thrown([&] {
                decoder.hidden(ids, &cache);
              }).find("gradients cannot be taken through a cache"),
              std::string::npos);
  }
}

// P32: nothing is drawn at random.
TEST(AttentionPitfalls, TwoPassesAreEqualBitForBit) {
  for (const auto& [name, config] : legal_systems()) {
    const Parameters parameters = random_parameters(config).cast(at::kFloat);
    const at::Tensor ids = some_ids(2, 9);
    EXPECT_TRUE(logits_of(config, parameters, ids).equal(logits_of(config, parameters, ids)))
        << name;
  }
}

// P26: a map is one parameter of all heads, so two ranks with half of the heads each add their
// gradients.
TEST(AttentionPitfalls, TheGradientOfAMapIsTheSumOverItsHeads) {
  const at::Tensor x = waves({2, 3, 4, 6}, 1.1), dy = waves({2, 3, 4, 6}, 2.3);
  const auto gradients = [&](KnockKind kind, int64_t begin, int64_t heads) {
    std::vector<at::Tensor> maps;
    for (int64_t i = 0; i < 3; ++i)
      maps.push_back(waves({6, 6}, 0.4 + 0.3 * double(i)).requires_grad_());
    const at::Tensor part = x.narrow(2, begin, heads);
    const at::Tensor y = kind == KnockKind::linear ? ops::knock_linear(part, maps[0])
                         : kind == KnockKind::gate
                             ? ops::knock_gate(part, maps[0])
                             : ops::knock_mlp(part, maps[0], maps[1], maps[2]);
    torch::autograd::backward({(y * dy.narrow(2, begin, heads)).sum()}, {});
    std::vector<at::Tensor> found;
    for (const at::Tensor& map : maps)
      if (map.grad().defined()) found.push_back(map.grad());
    return found;
  };
  for (const KnockKind kind : {KnockKind::linear, KnockKind::gate, KnockKind::mlp}) {
    const auto whole = gradients(kind, 0, 4), first = gradients(kind, 0, 2),
               second = gradients(kind, 2, 2);
    EXPECT_EQ(whole.size(), kind == KnockKind::mlp ? 3u : 1u);
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_LT(largest(first[i] + second[i] - whole[i]), 1e-12);
  }
}

}  // namespace
}  // namespace kha::test
