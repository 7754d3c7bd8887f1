// Sizes and settings that make no attention are refused with both sides of the contradiction; what
// is allowed but hardly meant is said.
#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/attention_system.h"
#include "kha/core/model_config.h"
#include "kha/core/model_warnings.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelConfig model(const std::string& attention) {
  ModelConfig c;
  c.attention = attention;
  if (attention != "gqa") c.rope_head_dim = 16;
  if (attention == "mla" || attention == "gla") {
    c.num_key_value_heads = c.num_attention_heads;
    c.kv_latent = 24;
    c.latent_heads = attention == "mla" ? 1 : 2;
  }
  return c;
}

std::string refusal(ModelConfig c, const std::function<void(ModelConfig&)>& change) {
  EXPECT_EQ(thrown([&] { validate(c, "m"); }), "");
  change(c);
  return thrown([&] { validate(c, "m"); });
}

TEST(ModelRefusals, HeadsThatDoNotDivide) {
  EXPECT_THAT(refusal(model("gqa"), [](auto& c) { c.num_key_value_heads = 3; }),
              AllOf(HasSubstr("8 query heads, 3 KV heads"), HasSubstr("a divisor of")));
  EXPECT_THAT(refusal(model("gla"), [](auto& c) { c.latent_heads = 3; }),
              AllOf(HasSubstr("`latent_heads`"), HasSubstr("a divisor of num_attention_heads")));
}

TEST(ModelRefusals, RotatedWidths) {
  for (const int64_t width : {15, 32, 34}) {
    EXPECT_THAT(refusal(model("gta"), [&](auto& c) { c.rope_head_dim = width; }),
                AllOf(HasSubstr("`rope_head_dim`"), HasSubstr("below head_dim 32"),
                      HasSubstr(std::to_string(width))));
  }
  EXPECT_THAT(refusal(model("gta"), [](auto& c) { c.rope_head_dim = 0; }), HasSubstr("below"));
  EXPECT_THAT(refusal(model("mla"), [](auto& c) { c.rope_head_dim = 7; }), HasSubstr("even"));
  EXPECT_THAT(refusal(model("gqa"), [](auto& c) { c.head_dim = 31; }),
              AllOf(HasSubstr("`head_dim`"), HasSubstr("even"), HasSubstr("31")));
  EXPECT_THAT(refusal(model("mla"), [](auto& c) { c.value_head_dim = -4; }),
              HasSubstr("`value_head_dim`"));
  EXPECT_THAT(refusal(model("gqa"), [](auto& c) { c.value_head_dim = 16; }),
              HasSubstr("attention `gqa` has no `value_head_dim`"));
}

TEST(ModelRefusals, RotaryLayouts) {
  EXPECT_THAT(refusal(model("gqa"), [](auto& c) { c.rotary_layout = "neox"; }),
              AllOf(HasSubstr("`rotary_layout`"), HasSubstr("half_split"), HasSubstr("interleaved"),
                    HasSubstr("neox")));
}

// Kinds that are no `linear`, by slot, and words of the reason.
TEST(ModelRefusals, MapsWithTheirReason) {
  for (const std::string attention : {"mla", "gla"}) {
    for (const KnockKind kind : {KnockKind::mlp, KnockKind::gate}) {
      const std::string names = "a `" + to_string(kind) + "` map may not stand on ";
      for (const KnockSlot slot : {KnockSlot::k, KnockSlot::v}) {
        EXPECT_THAT(refusal(model(attention), [&](auto& c) { c.knocks.all.at(slot) = kind; }),
                    AllOf(HasSubstr(names + to_string(slot) + " of " + attention),
                          HasSubstr("only a linear map commutes with the sum over latents")));
      }
      EXPECT_THAT(
          refusal(model(attention), [&](auto& c) { c.knocks.all.q = kind; }),
          AllOf(HasSubstr(names + "q of " + attention), HasSubstr("not covered by the paper")));
    }
  }
  // The tied half is a slice of the value's state; the rotated key is one head.
  for (const KnockKind kind : {KnockKind::linear, KnockKind::mlp, KnockKind::gate}) {
    EXPECT_THAT(
        refusal(model("gta"), [&](auto& c) { c.knocks.all.k = kind; }),
        AllOf(HasSubstr("may not stand on k of gta"), HasSubstr("slice of the value's state"),
              HasSubstr("one head, which shares with nobody")));
  }
}

TEST(RotaryLayout, IsWrittenAndReadAndKeepsAModelFromBeingPlain) {
  for (const std::string attention : {"gqa", "gta", "mla"}) {
    ModelConfig c = model(attention);
    EXPECT_THAT(to_config_json(c), testing::Not(HasSubstr("rotary_layout")));
    c.rotary_layout = "interleaved";
    EXPECT_FALSE(c.plain());
    EXPECT_THAT(to_config_json(c), HasSubstr("\"rotary_layout\": \"interleaved\""));
    EXPECT_EQ(parse_model_config(to_config_json(c), "m"), c);
  }
}

TEST(ValueHeadDim, IsWrittenReadAndCounted) {
  ModelConfig c = model("mla");
  c.value_head_dim = 20;
  EXPECT_EQ(parse_model_config(to_config_json(c), "m"), c);
  const auto& system = attention_declaration("mla", "");
  EXPECT_EQ(system.context_flops(c), 2 * 8 * (32 + 16 + 20));
  EXPECT_EQ(system.cache_elements(c), 24 + 16);
  EXPECT_EQ(system.place(KnockSlot::v).rows(c).width, 20);
  EXPECT_EQ(system.place(KnockSlot::v).rows(c).stride, 52);
  for (const AttentionTensor& tensor : system.tensors(c)) {
    EXPECT_EQ(tensor.outputs, tensor.name == "kv_b_proj" ? 8 * 52 : tensor.outputs);
    EXPECT_EQ(tensor.inputs, tensor.name == "o_proj" ? 8 * 20 : tensor.inputs);
  }
}

TEST(ModelWarnings, OfLinearMapsThatOneHeadSharesWithNobody) {
  ModelConfig c = model("gqa");
  c.knocks.all = {KnockKind::linear, KnockKind::linear, KnockKind::linear};
  EXPECT_THAT(model_warnings(c), IsEmpty());
  c.num_key_value_heads = 1;
  EXPECT_THAT(model_warnings(c), ElementsAre(HasSubstr("a linear map on k of one KV head"),
                                             HasSubstr("a linear map on v of one KV head")));
  c.knocks.all = {KnockKind::linear, KnockKind::none, KnockKind::mlp};
  EXPECT_THAT(model_warnings(c), IsEmpty());
  ModelConfig tied = model("gta");
  tied.num_key_value_heads = 1;
  tied.knocks.all.v = KnockKind::linear;
  EXPECT_THAT(model_warnings(tied), ElementsAre(HasSubstr("another form of kv_proj")));
}

TEST(ModelWarnings, OfHeadWidthsThatKernelsAreSlowAt) {
  ModelConfig c = model("gqa");
  c.head_dim = 20;
  EXPECT_THAT(model_warnings(c), ElementsAre(HasSubstr("key head is 20: not a multiple of 8")));
  c.head_dim = 264;
  EXPECT_THAT(model_warnings(c), ElementsAre(HasSubstr("264: wider than 256")));
  ModelConfig latent = model("mla");
  EXPECT_THAT(model_warnings(latent), IsEmpty());
  latent.value_head_dim = 12;
  latent.rope_head_dim = 18;
  EXPECT_THAT(model_warnings(latent),
              ElementsAre(HasSubstr("key head is 50"), HasSubstr("value head is 12")));
}

}  // namespace
}  // namespace kha
