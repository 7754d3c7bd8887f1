// A model in the other rotary layout is the same model, near and far, with maps of every kind in
// front of the rotation.
#include "core/surgery/rotary_layout.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "model/attention_systems.h"

namespace kha::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Parameters edited(const Parameters& parameters, const RotaryPlan& plan,
                  const std::string& without) {
  Parameters result;
  for (const auto& [name, tensor] : parameters.entries()) {
    const at::Tensor value = tensor.clone();
    const auto edit = plan.edits.find(name);
    const bool left_out = !without.empty() && name.find(without) != std::string::npos;
    if (edit != plan.edits.end() && !left_out) {
      edit->second({value.mutable_data_ptr<double>(), static_cast<size_t>(value.numel())});
    }
    result.add(name, value);
  }
  return result;
}

double difference(const ModelConfig& config, const Parameters& parameters, const RotaryPlan& plan,
                  const std::string& without = "") {
  const at::Tensor ids = some_ids(1, 501), positions = at::tensor({0, 1, 31, 200, 500}, at::kLong);
  const at::Tensor before = logits_of(config, parameters, ids).index_select(1, positions);
  const at::Tensor after = logits_of(plan.after, edited(parameters, plan, without), ids);
  return largest(after.index_select(1, positions) - before) / largest(before);
}

// Every legal pair of maps on q and k; the map on v is the strongest that is legal.
std::vector<SystemCase> converted_systems() {
  std::vector<SystemCase> cases;
  for (const auto& [name, config] : legal_systems()) {
    const auto& system = attention_declaration(config.attention, "");
    if (config.knocks.all.v == system.place(KnockSlot::v).legal.back())
      cases.push_back({name, config});
  }
  return cases;
}

TEST(RotaryLayout, BothLayoutsGiveTheSameLogitsAtEveryDistance) {
  for (auto& [name, config] : converted_systems()) {
    for (const std::string to : {"interleaved", "half_split"}) {
      config.rotary_layout = to == "interleaved" ? "half_split" : "interleaved";
      const Parameters parameters = random_parameters(config);
      const RotaryPlan plan = plan_rotary_layout(config, to, "m");
      EXPECT_EQ(plan.after.rotary_layout, to);
      EXPECT_LT(difference(config, parameters, plan), 1e-10) << name << " to " << to;
    }
  }
}

TEST(RotaryLayout, ThereAndBackAreTheSameBytes) {
  for (const auto& [name, config] : converted_systems()) {
    const Parameters parameters = random_parameters(config);
    const RotaryPlan there = plan_rotary_layout(config, "interleaved", "m");
    const RotaryPlan back = plan_rotary_layout(there.after, "half_split", "m");
    EXPECT_EQ(back.after, config);
    const Parameters again = edited(edited(parameters, there, ""), back, "");
    for (const auto& [key, value] : parameters.entries())
      EXPECT_TRUE(again.at(key).equal(value)) << key;
  }
}

// What is left behind shows: each part of the conversion is needed, and none goes unseen.
TEST(RotaryLayout, APartThatIsLeftOutIsSeen) {
  ModelConfig gqa = tiny_config({KnockKind::linear, KnockKind::mlp, KnockKind::linear});
  gqa.attention_bias = true;
  const std::vector<std::string> parts{"q_proj.weight", "k_proj.bias", "q_norm",
                                       "k_norm",        "knock_q",     "knock_k.up",
                                       "knock_k.gate",  "knock_k.down"};
  for (const std::string& part : parts) {
    EXPECT_GT(
        difference(gqa, random_parameters(gqa), plan_rotary_layout(gqa, "interleaved", "m"), part),
        1e-3)
        << part;
  }
}

TEST(RotaryLayout, ValuesAndPlainChannelsStay) {
  for (const auto& [name, config] : converted_systems()) {
    const RotaryPlan plan = plan_rotary_layout(config, "interleaved", "m");
    for (const auto& [key, edit] : plan.edits) {
      EXPECT_EQ(key.find("knock_v"), std::string::npos) << name;
      EXPECT_FALSE(key.ends_with(".v_proj.weight") || key.ends_with("o_proj.weight")) << name;
      const bool latent = config.kv_latent > 0;
      EXPECT_FALSE(latent && key.find("knock_") != std::string::npos) << name << ", " << key;
    }
  }
}

TEST(RotaryLayout, ChannelsOfEachLayout) {
  EXPECT_THAT(rotary_sources(6, "half_split"), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(rotary_sources(6, "interleaved"), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(rotary_sources(2, "interleaved"), ElementsAre(0, 1));
}

TEST(RotaryLayout, WhatIsNothingToConvertIsSaid) {
  const ModelConfig config = tiny_config();
  EXPECT_THAT(thrown([&] { plan_rotary_layout(config, "half_split", "m/config.json"); }),
              AllOf(HasSubstr("nothing to convert: the rotary layout is half_split already"),
                    HasSubstr("m/config.json")));
  EXPECT_THAT(
      thrown([&] { plan_rotary_layout(config, "neox", "m"); }),
      AllOf(HasSubstr("unknown rotary layout `neox`"), HasSubstr("half_split or interleaved")));
}

}  // namespace
}  // namespace kha::test
