// What attention systems refuse, with the reason and where to go instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"
#include "kha/core/attention_system.h"
#include "kha/core/model_config.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using enum KnockKind;

ModelConfig named(const std::string& attention) {
  ModelConfig c;
  c.attention = attention;
  if (attention.starts_with("gta")) c.rope_head_dim = 8;
  if (attention != "collaborative") return c;
  c.num_key_value_heads = c.num_attention_heads;
  c.shared_key_width = 64;
  return c;
}

std::string refusal(const ModelConfig& c) {
  return thrown([&] { validate(c, "config.json"); });
}

std::string refusal(const std::string& attention, const LayerKnocks& knocks) {
  ModelConfig c = named(attention);
  c.knocks.all = knocks;
  return refusal(c);
}

TEST(AttentionRefusals, SystemsAsTheyAreMeantAreTaken) {
  for (const char* attention : {"gta_value", "gta_apart", "talking", "collaborative"}) {
    EXPECT_EQ(refusal(named(attention)), "") << attention;
  }
  EXPECT_EQ(refusal("gta_value", {linear, none, linear}), "");
  EXPECT_EQ(refusal("gta_apart", {linear, linear, linear}), "");
  EXPECT_EQ(refusal("talking", {mlp, gate, mlp}), "");
  EXPECT_EQ(refusal("collaborative", {none, none, mlp}), "");
}

TEST(AttentionRefusals, OfMapsOnATiedState) {
  EXPECT_THAT(refusal("gta", {none, linear, none}),
              AllOf(HasSubstr("may not stand on k of gta"), HasSubstr("slice of the value's state"),
                    HasSubstr("`gta_apart` has linear maps for both")));
  EXPECT_THAT(refusal("gta_value", {none, linear, none}),
              AllOf(HasSubstr("may not stand on k of gta_value"),
                    HasSubstr("(`gta_apart` has a linear map for it)")));
  const auto tied = AllOf(HasSubstr("it would break the tied cache"),
                          HasSubstr("only a linear map commutes with the sum over states"),
                          HasSubstr("none, linear"));
  for (const char* attention : {"gta_value", "gta_apart"}) {
    for (const KnockKind kind : {mlp, gate}) {
      EXPECT_THAT(refusal(attention, {none, none, kind}), tied) << attention;
      EXPECT_THAT(refusal(attention, {kind, none, none}),
                  HasSubstr("every kind on q is legal in attention `gta`"));
    }
  }
  EXPECT_THAT(refusal("gta_apart", {none, mlp, none}), tied);
}

TEST(AttentionRefusals, OfMapsOnSharedQueriesAndKeys) {
  const auto shared = HasSubstr("no head has a part of its own that a map could act on");
  EXPECT_THAT(refusal("collaborative", {linear, none, none}),
              AllOf(HasSubstr("may not stand on q of collaborative"), shared));
  EXPECT_THAT(refusal("collaborative", {none, linear, none}),
              AllOf(HasSubstr("may not stand on k of collaborative"), shared));
}

TEST(AttentionRefusals, OfSizesOfCollaborativeAttention) {
  ModelConfig c = named("collaborative");
  for (const int64_t width : {int64_t{-1}, int64_t{0}, int64_t{31}, (int64_t{1} << 24) + 1}) {
    c.shared_key_width = width;
    EXPECT_THAT(refusal(c),
                AllOf(HasSubstr("`shared_key_width` does not make a model"),
                      HasSubstr("from head_dim 32 to 16777216: whole blocks of head_dim"),
                      HasSubstr(std::to_string(width))));
  }
  c = named("collaborative");
  c.num_key_value_heads = 2;
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("`num_key_value_heads`"),
                                HasSubstr("every head has values of its own")));
}

TEST(AttentionRefusals, OfPartsOfOtherSystems) {
  ModelConfig c = named("talking");
  c.shared_key_width = 64;
  EXPECT_THAT(refusal(c), HasSubstr("attention `talking` has no `shared_key_width`"));
  c = named("gqa");
  c.content_bias = true;
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("attention `gqa` has no `content_bias`"),
                                HasSubstr("false, or another attention"), HasSubstr("true")));
  c = named("collaborative");
  c.rope_head_dim = 8;
  EXPECT_THAT(refusal(c), HasSubstr("attention `collaborative` has no `rope_head_dim`"));
}

TEST(AttentionRefusals, WhatIsTakenIsWrittenAndReadBack) {
  ModelConfig c = named("collaborative");
  c.content_bias = true;
  c.knocks.all = {none, none, linear};
  const ModelConfig back = parse_model_config(to_config_json(c), "config.json");
  EXPECT_EQ(back.shared_key_width, 64);
  EXPECT_TRUE(back.content_bias);
  EXPECT_EQ(back, c);
  auto json = nlohmann::json::parse(to_config_json(c));
  EXPECT_EQ(json["kha"]["content_bias"], true);
  json["kha"]["content_bias"] = 1;
  EXPECT_THAT(thrown([&] { parse_model_config(json.dump(), "config.json"); }),
              AllOf(HasSubstr("`content_bias` has the wrong type"), HasSubstr("true or false")));
}

}  // namespace
}  // namespace kha
