#include "kha/core/knock_setting.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/attention_system.h"
#include "kha/core/model_config.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum KnockKind;

TEST(KnockSetting, NamedSettingsAreThePapers) {
  EXPECT_EQ(named_setting("baseline", "").knocks, (LayerKnocks{none, none, none}));
  EXPECT_EQ(named_setting("kha-linear", "").knocks, (LayerKnocks{linear, linear, linear}));
  EXPECT_EQ(named_setting("kha-linear-v", "").knocks, (LayerKnocks{none, none, linear}));
  EXPECT_EQ(named_setting("kha-mlp", "").knocks, (LayerKnocks{none, none, mlp}));
  EXPECT_EQ(named_setting("kha-mlp-qkv", "").knocks, (LayerKnocks{mlp, mlp, mlp}));
  EXPECT_EQ(named_setting("kha-gate-v", "").knocks, (LayerKnocks{none, none, gate}));
}

TEST(KnockSetting, NameOfASettingComesBack) {
  for (const auto& setting : named_settings()) {
    EXPECT_EQ(setting_name({.all = setting.knocks, .layers = {}}), setting.name);
  }
  EXPECT_EQ(setting_name({.all = {gate, none, none}, .layers = {}}), "custom");
  EXPECT_EQ(setting_name({.all = {none, none, mlp}, .layers = {{0, {}}}}), "custom");
}

TEST(KnockSetting, UnknownWordsNameTheNearest) {
  EXPECT_THAT(thrown([] { named_setting("kha-lineer", "run.toml"); }),
              AllOf(HasSubstr("unknown setting `kha-lineer` (did you mean `kha-linear`?)"),
                    HasSubstr("run.toml"), HasSubstr("one of baseline, kha-linear")));
  EXPECT_THAT(thrown([] { parse_knock_kind("gates", "config.json, `v`"); }),
              AllOf(HasSubstr("unknown kind of map `gates` (did you mean `gate`?)"),
                    HasSubstr("config.json, `v`"), HasSubstr("none, linear, mlp, gate")));
  EXPECT_THAT(thrown([] { parse_knock_start("zero", "knock.start"); }),
              AllOf(HasSubstr("unknown start of the maps `zero`"), HasSubstr("identity, random")));
}

TEST(KnockSetting, WordsRoundTrip) {
  for (const KnockKind kind : {none, linear, mlp, gate}) {
    EXPECT_EQ(parse_knock_kind(to_string(kind), ""), kind);
  }
  for (const KnockStart start : {KnockStart::identity, KnockStart::random}) {
    EXPECT_EQ(parse_knock_start(to_string(start), ""), start);
  }
}

TEST(KnockSetting, SlotsReachTheirOwnMap) {
  LayerKnocks knocks;
  knocks.at(KnockSlot::q) = linear;
  knocks.at(KnockSlot::k) = mlp;
  knocks.at(KnockSlot::v) = gate;
  EXPECT_EQ(knocks, (LayerKnocks{linear, mlp, gate}));
  for (const KnockSlot slot : knock_slots) {
    LayerKnocks one;
    one.at(slot) = linear;
    EXPECT_TRUE(one.any());
    EXPECT_EQ(std::as_const(one).at(slot), linear);
  }
}

TEST(KnockSetting, LayersOfTheirOwnReplaceTheSetting) {
  const ModelKnocks knocks{.all = {none, none, mlp}, .layers = {{1, {}}}};
  EXPECT_EQ(knocks.at(0).v, mlp);
  EXPECT_EQ(knocks.at(1).v, none);
  EXPECT_TRUE(knocks.any(2));
}

TEST(KnockSetting, AModelHasMapsOnlyWhereALayerShowsOne) {
  const ModelKnocks hidden{.all = {none, none, mlp}, .layers = {{0, {}}, {1, {}}}};
  EXPECT_FALSE(hidden.any(2));  // every layer replaces the setting
  EXPECT_TRUE(hidden.any(3));
  const ModelKnocks beyond{.all = {}, .layers = {{5, {none, none, mlp}}}};
  EXPECT_FALSE(beyond.any(5));
  EXPECT_TRUE(beyond.any(6));
  EXPECT_FALSE(ModelKnocks{}.any(4));
}

TEST(AttentionSystem, GroupedQueriesDeclareTheirPlaces) {
  const auto& system = attention_declaration("gqa", "");
  EXPECT_EQ(system.place(KnockSlot::q).projection({}), "q_proj");
  EXPECT_EQ(system.place(KnockSlot::k).projection({}), "k_proj");
  EXPECT_FALSE(system.place(KnockSlot::k).values);
  EXPECT_EQ(system.place(KnockSlot::v).projection({}), "v_proj");
  EXPECT_TRUE(system.place(KnockSlot::v).values);
  ModelConfig config;
  config.num_key_value_heads = 3;
  config.head_dim = 16;
  EXPECT_EQ(system.cache_elements(config), 96);
  EXPECT_EQ(system.context_flops(config), 4.0 * 8 * 16);
  EXPECT_EQ(system.place(KnockSlot::q).rows(config).heads, 8);
  EXPECT_EQ(system.place(KnockSlot::k).rows(config).heads, 3);
  EXPECT_EQ(system.place(KnockSlot::v).rows(config).width, 16);
}

TEST(AttentionSystem, UnknownNameNamesTheNearest) {
  EXPECT_THAT(thrown([] { attention_declaration("gqqa", "config.json"); }),
              AllOf(HasSubstr("unknown attention `gqqa` (did you mean `gqa`?)"),
                    HasSubstr("config.json"), HasSubstr("one of gqa")));
}

TEST(AttentionSystem, IllegalMapIsRefusedWithTheDeclaredReason) {
  AttentionDeclaration system = attention_declaration("gqa", "");
  system.places[0].legal = {none, linear};
  system.places[0].reason_otherwise = "the scores absorb the projection";
  EXPECT_EQ(thrown([&] { check_legal(system, {linear, mlp, gate}, "layer 3"); }), "");
  EXPECT_THAT(thrown([&] {
                check_legal(system, {mlp, none, none}, "layer 3");
              }),
              AllOf(HasSubstr("a `mlp` map may not stand on q of gqa"), HasSubstr("layer 3"),
                    HasSubstr("none, linear"), HasSubstr("the scores absorb the projection")));
}

}  // namespace
}  // namespace kha
