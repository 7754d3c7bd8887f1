// A folded model computes what the unfolded one computes, and is what it says it is.
#include "kha/core/fold.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "core/thrown.h"
#include "kha/core/parameter_table.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum KnockKind;

class Fold : public testing::Test {
 protected:
  void write(const ModelConfig& config, unsigned seed = 1) {
    config_ = config;
    tensors_ = random_tensors(config, seed);
    write_model(in_, config_, tensors_);
  }
  // Every layer's attention output, before and after, in float64.
  void expect_same_outputs(double tolerance = 1e-12) const {
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const auto before = attention_output(in_, layer), after = attention_output(out_, layer);
      EXPECT_LT(largest_difference(before, after), tolerance) << "layer " << layer;
    }
  }
  std::vector<double> folded(const std::string& name) const {
    return ModelFiles::open(out_).as_double(name);
  }

  TempFolder folder_;
  std::filesystem::path in_ = folder_ / "in", out_ = folder_ / "out";
  ModelConfig config_;
  Tensors tensors_;
};

std::set<std::string> names_in(const std::filesystem::path& model) {
  const auto names = ModelFiles::open(model).names();
  return {names.begin(), names.end()};
}

std::set<std::string> names_of(const ModelConfig& config) {
  std::set<std::string> names;
  for (const auto& spec : parameter_table(config)) names.insert(spec.name);
  return names;
}

struct Variant {
  int64_t kv_heads;
  bool bias;
  bool tied;
};

class FoldVariants : public Fold, public testing::WithParamInterface<Variant> {
 protected:
  ModelConfig variant(const LayerKnocks& knocks) const {
    ModelConfig config = tiny_config(knocks);
    config.num_key_value_heads = GetParam().kv_heads;
    config.attention_bias = GetParam().bias;
    config.tie_word_embeddings = GetParam().tied;
    return config;
  }
};

TEST_F(Fold, ASecondFoldOfAnyAttentionIsRefused) {
  ModelConfig latent = tiny_config({linear, none, linear});
  latent.attention = "mla";
  latent.num_key_value_heads = latent.num_attention_heads;
  latent.rope_head_dim = 4;
  latent.kv_latent = 10;
  latent.latent_heads = 1;
  latent.value_head_dim = 8;
  write(latent);
  EXPECT_FALSE(fold_model(in_, out_).after.knocks.any(latent.num_hidden_layers));
  EXPECT_THAT(thrown([&] { fold_model(out_, folder_ / "twice"); }),
              AllOf(HasSubstr("nothing to fold"), HasSubstr("without maps"),
                    HasSubstr("it was folded already")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "twice"));
}

TEST_P(FoldVariants, LinearMapsFoldAway) {
  write(variant({linear, linear, linear}));
  const FoldReport report = fold_model(in_, out_);
  expect_same_outputs();
  EXPECT_TRUE(report.after.plain());
  EXPECT_EQ(read_model_config(out_), variant({}));
  EXPECT_EQ(names_in(out_), names_of(variant({})));
  EXPECT_EQ(report.maps.size(), 6u);
  for (const auto& map : report.maps) EXPECT_EQ(map.outcome, FoldOutcome::folded);
}

TEST_P(FoldVariants, MlpOnValuesBecomesAGate) {
  write(variant({none, none, mlp}));
  const FoldReport report = fold_model(in_, out_);
  expect_same_outputs();
  EXPECT_EQ(read_model_config(out_), variant({none, none, gate}));
  EXPECT_EQ(names_in(out_), names_of(variant({none, none, gate})));
  ASSERT_EQ(report.maps.size(), 2u);
  EXPECT_EQ(report.maps[1].outcome, FoldOutcome::became_gate);
  EXPECT_EQ(report.maps[1].layer, 1);
  EXPECT_GT(report.maps[1].condition, 1.0);
}

TEST_P(FoldVariants, BadlyConditionedUpStays) {
  write(variant({none, none, mlp}));
  const FoldReport report = fold_model(in_, out_, {.condition_limit = 1.0});
  expect_same_outputs();
  EXPECT_EQ(read_model_config(out_), config_);
  EXPECT_EQ(report.maps[0].outcome, FoldOutcome::down_only);
  EXPECT_THAT(report.maps[0].reason,
              AllOf(HasSubstr("condition number of up"), HasSubstr("is above 1")));
  for (const std::string suffix : {"up.weight", "gate.weight"}) {
    EXPECT_EQ(folded(knock_name(0, KnockSlot::v, suffix)),
              tensors_.at(knock_name(0, KnockSlot::v, suffix)));
  }
  const auto down = folded(knock_name(0, KnockSlot::v, "down.weight"));
  for (size_t i = 0; i < down.size(); ++i) EXPECT_EQ(down[i], i % 7 == 0 ? 1.0 : 0.0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FoldVariants,
                         testing::Values(Variant{2, false, true}, Variant{2, true, false},
                                         Variant{4, true, true}, Variant{4, false, false},
                                         Variant{1, true, true}));

TEST_F(Fold, WeightsChangeWhereMapsStoodAndNowhereElse) {
  write(tiny_config({none, none, linear}));
  fold_model(in_, out_);
  for (const auto& name : names_of(tiny_config())) {
    const bool value_projection = name.find("v_proj") != std::string::npos;
    EXPECT_EQ(folded(name) != tensors_.at(name), value_projection) << name;
  }
}

TEST_F(Fold, IdentityMapsChangeNoBit) {
  write(tiny_config({linear, none, mlp}));
  for (const auto& spec : parameter_table(config_)) {
    auto& values = tensors_[spec.name];
    for (size_t i = 0; spec.role == Role::knock && i < values.size(); ++i) {
      values[i] = spec.init == Init::identity && i % 7 == 0 ? 1.0 : 0.0;
    }
  }
  write_model(in_, config_, tensors_);
  fold_model(in_, out_);
  for (const auto& name : names_of(tiny_config()))
    EXPECT_EQ(folded(name), tensors_.at(name)) << name;
}

TEST_F(Fold, LayersOfTheirOwn) {
  ModelConfig config = tiny_config({linear, mlp, mlp});
  config.knocks.layers[1] = {none, gate, linear};
  write(config);
  const FoldReport report = fold_model(in_, out_);
  expect_same_outputs();
  EXPECT_EQ(report.after.knocks.at(0), (LayerKnocks{none, mlp, gate}));
  EXPECT_EQ(report.after.knocks.at(1), (LayerKnocks{none, gate, none}));
  EXPECT_EQ(read_model_config(out_), report.after);
  EXPECT_EQ(names_in(out_), names_of(report.after));
}

TEST_F(Fold, MapsThatStayAreNamedWithTheReason) {
  write(tiny_config({mlp, gate, linear}));
  const FoldReport report = fold_model(in_, out_);
  expect_same_outputs();
  EXPECT_EQ(report.maps[0].outcome, FoldOutcome::kept);
  EXPECT_THAT(report.maps[0].reason, HasSubstr("not linear"));
  EXPECT_EQ(report.maps[1].outcome, FoldOutcome::kept);
  EXPECT_THAT(report.maps[1].reason, HasSubstr("a gate depends on its input"));
  EXPECT_EQ(report.maps[2].outcome, FoldOutcome::folded);
  EXPECT_EQ(report.after.knocks.all, (LayerKnocks{mlp, gate, none}));
}

TEST_F(Fold, EachLayerIsJudgedByItsOwnCondition) {
  write(tiny_config({none, none, mlp}));
  auto& up = tensors_[knock_name(1, KnockSlot::v, "up.weight")];
  for (size_t i = 0; i < 6; ++i) up[6 + i] = up[i];  // two equal rows: singular
  write_model(in_, config_, tensors_);
  const FoldReport report = fold_model(in_, out_, {.condition_limit = INFINITY});
  expect_same_outputs();
  EXPECT_EQ(report.maps[0].outcome, FoldOutcome::became_gate);
  EXPECT_EQ(report.maps[1].outcome, FoldOutcome::down_only);
  EXPECT_EQ(report.maps[1].condition, INFINITY);
  EXPECT_EQ(read_model_config(out_).knocks.at(1).v, mlp);
}

TEST_F(Fold, ASecondFoldIsRefused) {
  write(tiny_config({linear, linear, linear}));
  fold_model(in_, out_);
  const auto again = folder_ / "again";
  EXPECT_THAT(thrown([&] { fold_model(out_, again); }),
              AllOf(HasSubstr("nothing to fold: " + out_.string() + " has no maps"),
                    HasSubstr("folded already"), HasSubstr("nothing was written")));
  EXPECT_FALSE(std::filesystem::exists(again));
  try {
    fold_model(out_, again);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
}

TEST_F(Fold, AModelOfWhichNothingFoldsIsRefused) {
  write(tiny_config({mlp, none, gate}));
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }),
              AllOf(HasSubstr("nothing to fold: none of the model's maps"), HasSubstr("mlp on q"),
                    HasSubstr("gate on v"), HasSubstr("nothing was written")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Fold, WhatWasFoldedAsFarAsItGoesIsRefused) {
  write(tiny_config({none, none, mlp}));
  fold_model(in_, out_, {.condition_limit = 1.0});
  EXPECT_THAT(thrown([&] { fold_model(out_, folder_ / "again", {.condition_limit = 1.0}); }),
              AllOf(HasSubstr("nothing to fold"), HasSubstr("up and gate stay")));
}

TEST_F(Fold, ALimitBelowOneIsRefused) {
  write(tiny_config({none, none, mlp}));
  for (const double limit : {0.5, -1.0, std::nan("")}) {
    EXPECT_THAT(thrown([&] { fold_model(in_, out_, {.condition_limit = limit}); }),
                HasSubstr("at least 1"));
  }
}

TEST_F(Fold, MapsThatAreNotFiniteAreRefused) {
  write(tiny_config({none, linear, none}));
  tensors_[knock_name(1, KnockSlot::k, "weight")][3] = std::nan("");
  write_model(in_, config_, tensors_);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }),
              AllOf(HasSubstr("layers.1.self_attn.knock_k.weight"), HasSubstr("not finite")));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(Fold, WeightsThatLeaveTheTypeAreRefused) {
  write(tiny_config({none, linear, none}));
  for (double& value : tensors_[knock_name(0, KnockSlot::k, "weight")]) value *= 600;
  for (double& value : tensors_["model.layers.0.self_attn.k_proj.weight"]) value *= 600;
  write_model(in_, config_, tensors_, DType::f16);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }),
              AllOf(HasSubstr("k_proj.weight would not be finite"), HasSubstr("F16")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

class FoldTypes : public Fold, public testing::WithParamInterface<std::pair<DType, double>> {};

// The stored values are the float64 fold of the stored inputs, rounded once: half a unit at most.
TEST_P(FoldTypes, RoundedOnceToTheOwnType) {
  const auto [dtype, half_unit] = GetParam();
  config_ = tiny_config({linear, none, none});
  write_model(in_, config_, random_tensors(config_), dtype);
  fold_model(in_, out_);
  const ModelFiles before = ModelFiles::open(in_), after = ModelFiles::open(out_);
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto weight = before.as_double(name),
             map = before.as_double(knock_name(0, KnockSlot::q, "weight"));
  const auto stored = after.as_double(name);
  EXPECT_EQ(after.at(name).dtype, dtype);
  for (int64_t row = 0; row < 24; ++row) {
    for (int64_t column = 0; column < 20; ++column) {
      double exact = 0;
      for (int64_t i = 0; i < 6; ++i)
        exact += map[row % 6 * 6 + i] * weight[(row / 6 * 6 + i) * 20 + column];
      EXPECT_LE(std::abs(stored[row * 20 + column] - exact),
                half_unit * std::abs(exact) * (1 + 1e-6) + 1e-15);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FoldTypes,
                         testing::Values(std::pair(DType::f32, std::ldexp(1.0, -24)),
                                         std::pair(DType::bf16, std::ldexp(1.0, -8))));

}  // namespace
}  // namespace kha
