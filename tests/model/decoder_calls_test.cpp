// Calls of a decoder that cannot be meant are errors with both sides of the contradiction, before a
// number is computed and without a trace in the cache.
#include <gmock/gmock.h>

#include "core/thrown.h"
#include "model/attention_systems.h"
#include "modules/kv_cache.h"

namespace kha::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct DecoderCalls : testing::Test {
  // The refusal of 5 tokens of 2 rows behind `cache`, which stays as it was; empty where they fit.
  static std::string refusal(KvCache& cache, const ModelConfig& config,
                             const std::shared_ptr<const PackedLayout>& layout = nullptr) {
    const at::NoGradGuard no_grad;
    const Parameters parameters = random_parameters(config);
    const Decoder decoder(config, parameters, KnockPlan::activation_space, 8);
    const int64_t before = cache.length();
    const std::string text = thrown([&] { decoder.hidden(some_ids(2, 5), &cache, layout); });
    EXPECT_EQ(cache.length(), text.empty() ? before + 5 : before);
    return text;
  }
  static KvCache cache_of(const ModelConfig& config, int64_t batch = 2, int64_t capacity = 8,
                          at::ScalarType dtype = at::kDouble) {
    return KvCache(config, batch, capacity, dtype, at::kCPU);
  }
  static std::string refusal_of(const ModelConfig& made, const ModelConfig& wanted) {
    KvCache cache = cache_of(made);
    return refusal(cache, wanted);
  }
  static std::shared_ptr<const PackedLayout> layout_of(PackedLayout layout) {
    return std::make_shared<const PackedLayout>(std::move(layout));
  }
};

TEST_F(DecoderCalls, ACacheOfItsOwnModelFits) {
  for (const auto& [name, config] : bare_systems()) {
    KvCache cache = cache_of(config);
    EXPECT_EQ(refusal(cache, config), "") << name;
  }
}

TEST_F(DecoderCalls, ACacheOfAnotherModelIsRefusedByWhatDiffers) {
  const ModelConfig gqa = tiny_config(), mla = with_parts("mla", 1, 14);
  EXPECT_THAT(refusal_of(gqa, with_parts("gta", 0, 0)),
              AllOf(HasSubstr("another model: its attention"), HasSubstr("expected: gta"),
                    HasSubstr("found:    gqa"), HasSubstr("make a KvCache from this model")));
  ModelConfig other = gqa;
  other.num_hidden_layers = 3;
  EXPECT_THAT(refusal_of(other, gqa), AllOf(HasSubstr("its layers"), HasSubstr("found:    3")));
  other = mla;
  other.kv_latent = 12;
  EXPECT_THAT(refusal_of(other, mla),
              AllOf(HasSubstr("latents 1 x 10, rotated key 1 x 4"), HasSubstr("latents 1 x 12")));
  other = gqa;
  other.rotary_layout = "interleaved";
  EXPECT_THAT(refusal_of(other, gqa),
              AllOf(HasSubstr("its rotary layout"), HasSubstr("found:    interleaved")));
  other = gqa;
  other.rope_theta = 5e5;
  EXPECT_THAT(refusal_of(other, gqa), HasSubstr("its rotary base"));
  // Whatever else differs is another model too.
  other = gqa;
  other.rms_norm_eps = 1e-5;
  EXPECT_THAT(refusal_of(other, gqa), HasSubstr("another in its sizes, norms, biases"));
  other = gqa;
  other.rotary_scaling = {.kind = "linear", .factor = 2};
  EXPECT_THAT(refusal_of(other, gqa), HasSubstr("its rotary scaling"));
}

TEST_F(DecoderCalls, ACacheOfAnotherFoldStateIsRefused) {
  const ModelConfig knocked = tiny_config({KnockKind::none, KnockKind::none, KnockKind::linear});
  const std::string text = refusal_of(tiny_config(), knocked);
  EXPECT_THAT(text, AllOf(HasSubstr("its maps on q, k, v by layer"),
                          HasSubstr("expected: none none linear, none none linear"),
                          HasSubstr("maps that were folded")));
  EXPECT_NE(refusal_of(knocked, tiny_config()), "");
}

TEST_F(DecoderCalls, BatchTypeAndRoomMustFit) {
  const ModelConfig config = tiny_config();
  KvCache rows = cache_of(config, 3);
  EXPECT_THAT(refusal(rows, config),
              AllOf(HasSubstr("another batch"), HasSubstr("expected: 2 rows"),
                    HasSubstr("found:    3 rows")));
  KvCache narrow = cache_of(config, 2, 8, at::kFloat);
  EXPECT_THAT(refusal(narrow, config),
              AllOf(HasSubstr("other numbers"), HasSubstr("Double"), HasSubstr("Float")));
  KvCache small = cache_of(config, 2, 4);
  EXPECT_THAT(refusal(small, config),
              AllOf(HasSubstr("no room for these tokens"), HasSubstr("room for 5 positions"),
                    HasSubstr("room for 4, of which 0 are taken")));
}

TEST_F(DecoderCalls, PositionsAndPaddingMustBeThoseOfTheBatch) {
  const ModelConfig config = tiny_config();
  const auto with_positions = [&](const at::Tensor& positions) {
    KvCache cache = cache_of(config);
    return refusal(cache, config,
                   layout_of({.lengths = {}, .positions_N = positions, .text_BS = {}}));
  };
  EXPECT_EQ(with_positions(at::arange(5, at::kLong).repeat({2})), "");
  EXPECT_THAT(with_positions(at::arange(5, at::kLong)),
              AllOf(HasSubstr("positions are not those of the batch"), HasSubstr("10 positions")));
  EXPECT_THAT(
      with_positions(at::arange(-1, 4, at::kLong).repeat({2})),
      AllOf(HasSubstr("outside the decoder's room"), HasSubstr("0 to 7"), HasSubstr("-1 to 3")));
  EXPECT_THAT(with_positions(at::arange(4, 9, at::kLong).repeat({2})), HasSubstr("4 to 8"));
  KvCache cache = cache_of(config);
  EXPECT_THAT(
      refusal(
          cache, config,
          layout_of({.lengths = {}, .positions_N = {}, .text_BS = at::ones({2, 4}, at::kBool)})),
      AllOf(HasSubstr("padding is not that of the batch"), HasSubstr("text_BS [2, 5]")));
}

TEST_F(DecoderCalls, DocumentsAreNotReadIntoACache) {
  const at::NoGradGuard no_grad;
  const ModelConfig config = tiny_config();
  const Parameters parameters = random_parameters(config);
  const Decoder decoder(config, parameters, KnockPlan::activation_space, 16);
  KvCache cache(config, 2, 16, at::kDouble, at::kCPU);
  decoder.hidden(some_ids(2, 5), &cache);
  const auto documents = layout_of({.lengths = {3, 2, 5}, .positions_N = {}, .text_BS = {}});
  EXPECT_THAT(thrown([&] { decoder.hidden(some_ids(2, 5), &cache, documents); }),
              AllOf(HasSubstr("documents cannot be read into a cache"),
                    HasSubstr("3 documents and a cache of 5 positions")));
  const auto few = layout_of({.lengths = {3, 2}, .positions_N = {}, .text_BS = {}});
  EXPECT_THAT(thrown([&] { decoder.hidden(some_ids(2, 5), nullptr, few); }),
              AllOf(HasSubstr("do not fill the batch"), HasSubstr("10 tokens")));
}

// Where no form is named, keys and values are formed for a gradient.
TEST_F(DecoderCalls, AbsorbedDecodingIsNotForTraining) {
  const ModelConfig config = with_parts("mla", 1, 14);
  const Parameters parameters = random_parameters(config);
  at::Tensor(parameters.at(attention_prefix(0) + "kv_b_proj.weight")).requires_grad_();
  const RotaryTable rotary(5, config.rotary_width(), 1e4, at::kDouble, at::kCPU);
  const at::Tensor x = at::sin(at::arange(5 * config.hidden_size, at::kDouble) * 1.7)
                           .view({1, 5, config.hidden_size})
                           .requires_grad_();
  const auto attend = [&](DecodeForm form) {
    const auto attention = make_attention(config, parameters, 0, KnockPlan::activation_space, form);
    const Projected p = attention->project(x, rotary, 0);
    return attention->attend(p.queries_BTHD.narrow(1, 4, 1), p.entry, nullptr);
  };
  EXPECT_THAT(thrown([&] { attend(DecodeForm::absorbed); }),
              AllOf(HasSubstr("absorbed decoding is not for training"),
                    HasSubstr("attention `mla`"), HasSubstr("name no form")));
  EXPECT_TRUE(attend(DecodeForm::fewest_operations).equal(attend(DecodeForm::formed)));
  const at::NoGradGuard no_grad;
  EXPECT_EQ(thrown([&] { attend(DecodeForm::absorbed); }), "");
}

TEST_F(DecoderCalls, MoreTokensThanTheDecoderHasRoomFor) {
  const ModelConfig config = tiny_config();
  const Parameters parameters = random_parameters(config);
  const Decoder decoder(config, parameters, KnockPlan::activation_space, 4);
  EXPECT_THAT(thrown([&] { decoder.hidden(some_ids(2, 5)); }),
              AllOf(HasSubstr("longer than the decoder's room"), HasSubstr("at most 4 positions")));
  const Decoder again(config, parameters, KnockPlan::activation_space, 8, Recompute::layer);
  KvCache cache = cache_of(config);
  EXPECT_THAT(thrown([&] { again.hidden(some_ids(2, 5), &cache); }),
              HasSubstr("no use for a cache"));
}

}  // namespace
}  // namespace kha::test
