#include "kha/core/legality.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum KnockKind;

const AttentionDeclaration& system_of(const std::string& name) {
  return attention_declaration(name, "test");
}

LegalSystem row_of(const std::string& name) {
  for (const LegalSystem& system : legality()) {
    if (system.name == name) return system;
  }
  throw std::logic_error(name);
}

// attention-variants, section 8, written out by hand.
TEST(Legality, TheTableOfTheSpecification) {
  const LegalSystem gqa = row_of("gqa"), gta = row_of("gta"), mla = row_of("mla");
  for (const LegalPlace& place : gqa.places) {
    EXPECT_THAT(place.kinds, ElementsAre(linear, mlp, gate));
    EXPECT_TRUE(place.reason.empty());
  }
  EXPECT_THAT(gqa.places[2].linear_into, ElementsAre("v_proj"));
  EXPECT_TRUE(gqa.places[2].mlp_folds);
  EXPECT_FALSE(gqa.places[0].mlp_folds);
  EXPECT_THAT(gta.places[0].kinds, ElementsAre(linear, mlp, gate));
  EXPECT_THAT(gta.places[1].kinds, IsEmpty());
  EXPECT_THAT(gta.places[1].linear_into, IsEmpty());
  EXPECT_THAT(gta.places[2].linear_into, ElementsAre("kv_proj"));
  for (const LegalPlace& place : mla.places) EXPECT_THAT(place.kinds, ElementsAre(linear));
  EXPECT_THAT(mla.places[0].linear_into, ElementsAre("q_b_proj", "q_proj"));
  EXPECT_THAT(mla.places[1].linear_into, ElementsAre("kv_b_proj"));
  EXPECT_FALSE(mla.places[2].mlp_folds);  // no mlp may stand there
}

TEST(Legality, CachesInSymbols) {
  const auto cached = [](const std::string& name) {
    std::vector<std::string> parts;
    for (const CachedPart& part : row_of(name).cached)
      parts.push_back(part.name + ": " + part.elements);
    return parts;
  };
  EXPECT_THAT(cached("gqa"), ElementsAre("keys: H_kv D", "values: H_kv D"));
  EXPECT_THAT(cached("gta"), ElementsAre("states: H_kv D", "rotated key: d_R"));
  EXPECT_THAT(cached("mla"), ElementsAre("latents: h_c d_c", "rotated key: d_R"));
  EXPECT_THAT(cached("gla"), ElementsAre("latents: h_c d_c", "rotated key: d_R"));
}

// The table says what check_legal does, for every system and every named setting.
TEST(Legality, SettingsAreThoseThatPass) {
  for (const auto& system : attention_declarations()) {
    const auto listed = row_of(system.name).settings;
    for (const NamedSetting& setting : named_settings()) {
      if (!setting.knocks.any()) continue;
      const bool passes = thrown([&] { check_legal(system, setting.knocks, "test"); }).empty();
      const bool there = std::find(listed.begin(), listed.end(), setting.name) != listed.end();
      EXPECT_EQ(there, passes) << system.name << " " << setting.name;
    }
  }
}

TEST(Legality, NearestIsLegalAndChangesNoLegalMap) {
  for (const auto& system : attention_declarations()) {
    for (const KnockKind q : {none, linear, mlp, gate}) {
      for (const KnockKind k : {none, linear, mlp, gate}) {
        for (const KnockKind v : {none, linear, mlp, gate}) {
          const LayerKnocks asked{q, k, v}, nearest = nearest_legal(system, asked);
          EXPECT_EQ(illegal_place(system, nearest), nullptr);
          if (!illegal_place(system, asked)) {
            EXPECT_EQ(nearest, asked);
          }
        }
      }
    }
  }
  EXPECT_EQ(nearest_legal(system_of("mla"), {mlp, none, mlp}), (LayerKnocks{linear, none, linear}));
  EXPECT_EQ(nearest_legal(system_of("gta"), {linear, linear, mlp}),
            (LayerKnocks{linear, none, mlp}));
}

TEST(Legality, RefusalsNameTheNearestLegalSetting) {
  const auto refusal = [](const std::string& system, const std::string& setting) {
    return thrown(
        [&] { check_legal(system_of(system), named_setting(setting, "test").knocks, "a.toml"); });
  };
  EXPECT_THAT(
      refusal("mla", "kha-mlp"),
      AllOf(HasSubstr("a `mlp` map may not stand on v of mla"), HasSubstr("a.toml"),
            HasSubstr("expected: none, linear"), HasSubstr("only a linear map commutes"),
            HasSubstr("next:     --set knock.setting=kha-linear-v, or --set knock.v=linear"),
            HasSubstr("also legal: kha-linear"), HasSubstr("kha inspect --legality")));
  EXPECT_THAT(refusal("gla", "kha-mlp-qkv"),
              AllOf(HasSubstr("knock.setting=kha-linear, or --set knock.q=linear --set "
                              "knock.k=linear --set knock.v=linear"),
                    HasSubstr("also legal: kha-linear-v")));
  EXPECT_THAT(refusal("gta", "kha-linear"),
              AllOf(HasSubstr("may not stand on k of gta"), HasSubstr("--set knock.k=none"),
                    HasSubstr("knock.setting=kha-linear-v")));
  EXPECT_EQ(refusal("gqa", "kha-mlp-qkv"), "");
}

TEST(Legality, TextMarkdownAndJsonNameEverySystemAndReason) {
  const auto json = nlohmann::json::parse(legality_json());
  ASSERT_EQ(json["systems"].size(), attention_declarations().size());
  for (const auto& system : attention_declarations()) {
    EXPECT_THAT(legality_text(), HasSubstr(system.name));
    EXPECT_THAT(legality_markdown(), HasSubstr("| `" + system.name + "` |"));
    for (const KnockPlace& place : system.places) {
      if (place.reason_otherwise.empty()) continue;
      EXPECT_THAT(legality_text(), HasSubstr(place.reason_otherwise));
      EXPECT_THAT(legality_markdown(), HasSubstr(place.reason_otherwise));
      EXPECT_THAT(legality_json(), HasSubstr(place.reason_otherwise));
    }
  }
}

}  // namespace
}  // namespace kha
