// Variants of a comparison: read, ordered, made into configurations, refused.
#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/variant.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* three =
    "[model]\nnum_key_value_heads = 2\n[compare]\nsettings = [\"baseline\", \"kha-mlp\"]\n"
    "[compare.variants]\n"
    "a-latent = [\"model.attention=mla\", \"model.num_key_value_heads=8\", "
    "\"model.latent_heads=1\", \"model.kv_latent=64\", \"model.rope_head_dim=8\"]\n"
    "mqa = [\"model.num_key_value_heads=1\", \"optimizer.lr=0.5\"]\n"
    "gqa = []\n";

RunConfig parse(const std::string& toml, const std::vector<std::string>& sets = {}) {
  return parse_run_config(toml, "run.toml", sets);
}
std::string refusal(const std::string& toml, const std::vector<std::string>& sets = {}) {
  return thrown([&] { parse(toml, sets); });
}
std::string with(const std::string& list) {
  return "[compare]\nsettings = [\"baseline\", \"kha-mlp\"]\n[compare.variants]\nx = " + list;
}

TEST(Variants, AreOrderedBySystemAndCache) {
  const auto variants = variants_of(parse(three));
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].name, "gqa");
  EXPECT_EQ(variants[1].name, "mqa");
  EXPECT_EQ(variants[2].name, "a-latent");
}

TEST(Variants, ChangeTheModelAndNothingElse) {
  const RunConfig config = parse(three);
  const auto variants = variants_of(config);
  EXPECT_EQ(variants[0].config.model.num_key_value_heads, 2);
  EXPECT_EQ(variants[1].config.model.num_key_value_heads, 1);
  EXPECT_EQ(variants[1].config.optimizer.lr, 0.5);
  EXPECT_EQ(variants[2].config.model.attention, "mla");
  EXPECT_EQ(variants[2].config.model.kv_latent, 64);
  for (const Variant& variant : variants) {
    EXPECT_EQ(variant.config.run.seed, config.run.seed);
    EXPECT_EQ(variant.config.model.hidden_size, config.model.hidden_size);
    EXPECT_EQ(variant.config.model.max_position_embeddings, config.train.context);
  }
  EXPECT_EQ(config.model.num_key_value_heads, 2);
}

TEST(Variants, WhatIsNotLegalIsLeftOutWithItsReason) {
  const auto variants = variants_of(parse(three));
  EXPECT_THAT(variants[0].settings, ElementsAre("baseline", "kha-mlp"));
  EXPECT_THAT(variants[0].left_out, IsEmpty());
  EXPECT_THAT(variants[2].settings, ElementsAre("baseline"));
  ASSERT_EQ(variants[2].left_out.size(), 1u);
  EXPECT_EQ(variants[2].left_out[0].setting, "kha-mlp");
  EXPECT_THAT(variants[2].left_out[0].reason,
              AllOf(HasSubstr("a `mlp` map may not stand on v of mla"),
                    HasSubstr("only a linear map commutes"),
                    HasSubstr("legal there: kha-linear-v, kha-linear")));
}

TEST(Variants, MayHaveSettingsOfTheirOwn) {
  const auto variants =
      variants_of(parse(three, {"compare.variants.mqa=[\"model.num_key_value_heads=1\", "
                                "\"compare.settings=[\\\"baseline\\\", \\\"kha-linear\\\"]\"]"}));
  EXPECT_THAT(variants[1].settings, ElementsAre("baseline", "kha-linear"));
  EXPECT_THAT(variants[0].settings, ElementsAre("baseline", "kha-mlp"));
}

TEST(Variants, ReadBackAsWritten) {
  const RunConfig config = parse(three);
  EXPECT_EQ(parse(to_toml(config)).compare.variants, config.compare.variants);
  EXPECT_THAT(to_toml(parse("")), testing::Not(HasSubstr("variants")));
}

TEST(Variants, WithoutAnyTheSettingsMustBeLegal) {
  RunConfig config = parse("");
  ASSERT_EQ(variants_of(config).size(), 1u);
  EXPECT_EQ(variants_of(config)[0].name, "");
  config =
      parse("", {"knock.setting=baseline", "model.attention=mla", "model.num_key_value_heads=8",
                 "model.latent_heads=1", "model.kv_latent=64", "model.rope_head_dim=8"});
  EXPECT_THAT(thrown([&] { variants_of(config); }), AllOf(HasSubstr("may not stand on v of mla"),
                                                          HasSubstr("compare.settings, kha-mlp")));
}

TEST(Variants, WhatDoesNotFitIsASentence) {
  EXPECT_THAT(refusal(with("[\"data.paths=[]\"]")),
              AllOf(HasSubstr("`data.paths` may not differ between variants"),
                    HasSubstr("compare.variants.x"), HasSubstr("same text in the same order")));
  for (const std::string key : {"train.batch=2", "run.seed=3", "knock.v=mlp", "init.from=x"})
    EXPECT_THAT(refusal(with("[\"" + key + "\"]")), HasSubstr("may not differ between variants"));
  EXPECT_THAT(refusal(with("[\"model.atention=mla\"]")),
              AllOf(HasSubstr("did you mean `model.attention`"), HasSubstr("compare.variants.x")));
  EXPECT_THAT(refusal(with("[\"model.attention=mla\"]")), HasSubstr("compare.variants.x"));
  EXPECT_THAT(refusal(with("[\"model.num_key_value_heads\"]")), HasSubstr("this is no key=value"));
  EXPECT_THAT(refusal(with("\"mla\"")),
              AllOf(HasSubstr("does not describe a variant"), HasSubstr("line 4")));
  EXPECT_THAT(refusal(with("[3]")), HasSubstr("does not describe a variant"));
  EXPECT_THAT(refusal("[compare.variants]\n\"a/b\" = []\n"),
              HasSubstr("does not describe a variant"));
  EXPECT_THAT(refusal("[compare.variants.x.y]\nz = 1\n"), HasSubstr("does not describe a variant"));
  EXPECT_THAT(refusal("[compare.variant]\nx = []\n"), HasSubstr("unknown key `compare.variant.x`"));
  EXPECT_EQ(refusal("[compare.variants]\n"), "");
}

TEST(Variants, TheReferenceIsTheSameEverywhere) {
  EXPECT_THAT(refusal(with("['compare.settings=[\"kha-mlp\", \"baseline\"]']")),
              AllOf(HasSubstr("another reference than the comparison"),
                    HasSubstr("`baseline` first"), HasSubstr("found:    kha-mlp")));
  EXPECT_THAT(refusal(with("['compare.settings=[]']")), HasSubstr("no setting"));
  EXPECT_THAT(refusal(std::string(three), {"compare.settings=[\"kha-mlp\"]"}),
              AllOf(HasSubstr("the reference `kha-mlp` is not legal in a variant"),
                    HasSubstr("compare.variants.a-latent")));
  EXPECT_THAT(refusal(std::string(three), {"compare.settings=[]"}),
              HasSubstr("a comparison needs a setting to begin with"));
  EXPECT_THAT(refusal(with("['compare.settings=[\"baseline\", \"kha-mpl\"]']")),
              HasSubstr("did you mean `kha-mlp`?"));
}

}  // namespace
}  // namespace kha
