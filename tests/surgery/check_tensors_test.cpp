#include "kha/core/check_tensors.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/parameter_table.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using enum KnockKind;

class CheckTensors : public testing::Test {
 protected:
  // The tensors of config_ in the file; `read_as` is what config.json says.
  TensorCheck check(const ModelConfig& read_as, DType dtype = DType::f32) {
    write_model(folder_ / "m", config_, tensors_, dtype);
    return check_tensors(ModelFiles::open(folder_ / "m"), read_as);
  }
  std::string refusal(const ModelConfig& read_as) {
    return thrown([&] { check(read_as); });
  }

  TempFolder folder_;
  ModelConfig config_ = tiny_config();
  Tensors tensors_ = random_tensors(config_);
};

TEST_F(CheckTensors, AModelFitsItself) {
  for (const bool tied : {true, false}) {
    for (const bool bias : {true, false}) {
      config_ = tiny_config({linear, gate, mlp});
      config_.tie_word_embeddings = tied;
      config_.attention_bias = bias;
      tensors_ = random_tensors(config_);
      const TensorCheck result = check(config_, DType::bf16);
      EXPECT_THAT(result.unread, IsEmpty());
      EXPECT_THAT(result.warnings, IsEmpty());
    }
  }
}

TEST_F(CheckTensors, MissingTensorIsNamed) {
  tensors_.erase("model.layers.1.self_attn.k_proj.weight");
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("is missing: model.layers.1.self_attn.k_proj.weight"),
                    HasSubstr("model.safetensors"), HasSubstr("1 of the")));
}

TEST_F(CheckTensors, UnreadTensorIsNamed) {
  tensors_["model.layers.0.self_attn.sinks"] = {1, 2};
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("a tensor that the model of config.json would not read"),
                    HasSubstr("model.layers.0.self_attn.sinks"), HasSubstr("model.safetensors")));
}

TEST_F(CheckTensors, RenamedTensorShowsBothNames) {
  tensors_["model.norms.weight"] = tensors_["model.norm.weight"];
  tensors_.erase("model.norm.weight");
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("missing: model.norm.weight (did you mean `model.norms.weight`?)"),
                    HasSubstr("instead: model.norms.weight")));
}

TEST_F(CheckTensors, MapsThatTheConfigDoesNotNameAreNotSkipped) {
  config_ = tiny_config({none, none, mlp});
  tensors_ = random_tensors(config_);
  EXPECT_THAT(refusal(tiny_config()),
              AllOf(HasSubstr("6 tensors"), HasSubstr("knock_v.up.weight"), HasSubstr("and 2 more"),
                    HasSubstr("cause:    the maps")));
  config_ = tiny_config();
  tensors_ = random_tensors(config_);
  EXPECT_THAT(refusal(tiny_config({linear, none, none})), HasSubstr("knock_q.weight"));
}

TEST_F(CheckTensors, BiasesOnOneSideOnly) {
  ModelConfig other = config_;
  other.attention_bias = true;
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("8 of the"), HasSubstr("attention_bias true")));
  config_ = other;
  tensors_ = random_tensors(config_);
  EXPECT_THAT(refusal(tiny_config()),
              AllOf(HasSubstr("8 tensors"), HasSubstr("attention_bias false")));
}

TEST_F(CheckTensors, OtherNumberOfLayers) {
  ModelConfig other = config_;
  other.num_hidden_layers = 3;
  EXPECT_THAT(refusal(other), HasSubstr("the file has 2 layers, config.json says 3"));
  other.num_hidden_layers = 1;
  EXPECT_THAT(refusal(other), HasSubstr("the file has 2 layers, config.json says 1"));
}

TEST_F(CheckTensors, OtherSizesAreSaidInTheConfigsWords) {
  const auto refused = [&](int64_t ModelConfig::*size, int64_t value) {
    ModelConfig other = config_;
    other.*size = value;
    return refusal(other);
  };
  EXPECT_THAT(
      refused(&ModelConfig::num_key_value_heads, 1),
      AllOf(HasSubstr(
                "layers.0.self_attn.k_proj.weight: the file has 2 KV heads, config.json says 1"),
            HasSubstr("expected: [6, 20]"), HasSubstr("found:    [12, 20]; 4 tensors differ"),
            HasSubstr("does not convert"), HasSubstr("set `num_key_value_heads` to 2"),
            HasSubstr("kha convert MODEL OUT --kv-heads N")));
  EXPECT_THAT(refused(&ModelConfig::num_attention_heads, 8),
              HasSubstr("q_proj.weight: the file has 4 query heads, config.json says 8"));
  EXPECT_THAT(refused(&ModelConfig::head_dim, 12),
              HasSubstr("q_norm.weight: the file has heads 6 wide, config.json says 12"));
  EXPECT_THAT(refused(&ModelConfig::hidden_size, 22),
              HasSubstr("the file has a width of 20, config.json says 22"));
  EXPECT_THAT(refused(&ModelConfig::vocab_size, 14),
              HasSubstr("the file has 13 token ids, config.json says 14"));
  EXPECT_THAT(refused(&ModelConfig::intermediate_size, 10),
              HasSubstr("the file has a feed-forward of 9, config.json says 10"));
}

TEST_F(CheckTensors, ShapeThatNoSizeExplains) {
  tensors_["model.layers.1.mlp.down_proj.weight"].pop_back();
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("model.layers.1.mlp.down_proj.weight has another shape"),
                    HasSubstr("expected: [20, 9]"), HasSubstr("found:    [179]")));
}

ModelConfig latent_config() {
  ModelConfig c = tiny_config({linear, none, linear});
  c.attention = "mla";
  c.num_key_value_heads = c.num_attention_heads;
  c.rope_head_dim = 4;
  c.kv_latent = 10;
  c.latent_heads = 1;
  c.value_head_dim = 8;
  return c;
}

// Maps on q and k are as wide as keys, a map on v is as wide as values.
TEST_F(CheckTensors, AMapOfTheOtherWidthIsRefusedWithItsOwn) {
  config_ = latent_config();
  tensors_ = random_tensors(config_);
  EXPECT_EQ(refusal(config_), "");
  tensors_["model.layers.1.self_attn.knock_v.weight"].resize(36);
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("layers.1.self_attn.knock_v.weight does not fit the heads"),
                    HasSubstr("[8, 8]: the map of v is a square of value_head_dim 8"),
                    HasSubstr("found:    [36]"), HasSubstr("as wide as values")));
  tensors_ = random_tensors(config_);
  tensors_["model.layers.0.self_attn.knock_q.weight"].resize(64, 0.0);
  EXPECT_THAT(refusal(config_), AllOf(HasSubstr("knock_q.weight does not fit"),
                                      HasSubstr("[6, 6]: the map of q is a square of head_dim 6")));
}

// Latent attention has norms of its latents, none of its heads.
TEST_F(CheckTensors, NormsOfHeadsInLatentAttentionAreNotSkipped) {
  config_ = latent_config();
  tensors_ = random_tensors(config_);
  tensors_["model.layers.0.self_attn.q_norm.weight"] = std::vector<double>(6, 1.0);
  EXPECT_THAT(refusal(config_), AllOf(HasSubstr("would not read"), HasSubstr("q_norm.weight")));
}

TEST_F(CheckTensors, QuantisedWeightsAreRefused) {
  std::vector<TensorSpec> specs;
  for (const auto& spec : parameter_table(config_))
    specs.push_back({spec.name, DType::i8, spec.shape});
  SafetensorsWriter writer(folder_ / "model.safetensors", specs);
  for (const auto& spec : specs) writer.write(spec.name, std::vector<std::byte>(spec.byte_size()));
  writer.finish();
  const ModelFiles files = ModelFiles::open(folder_.path());
  EXPECT_THAT(thrown([&] { check_tensors(files, config_); }),
              AllOf(HasSubstr("model.embed_tokens.weight holds no numbers"),
                    HasSubstr("F64, F32, F16 or BF16"), HasSubstr("I8"), HasSubstr("quantised")));
}

// DeepSeek-V3 and Glm4-MoE are published with one such layer.
TEST_F(CheckTensors, LayersThatPredictFurtherTokensAreNotReadAndSaid) {
  tensors_["model.layers.2.enorm.weight"] = {1, 2};
  EXPECT_THAT(refusal(config_), HasSubstr("would not read"));
  tensors_["model.layers.2.eh_proj.weight"] = {1, 2, 3};
  const TensorCheck result = check(config_);
  EXPECT_THAT(result.unread, testing::UnorderedElementsAre("model.layers.2.enorm.weight",
                                                           "model.layers.2.eh_proj.weight"));
  EXPECT_THAT(result.warnings,
              testing::ElementsAre(HasSubstr("2 tensors of layers behind the last")));
  tensors_["model.layers.3.enorm.weight"] = {1, 2};
  EXPECT_THAT(refusal(config_), HasSubstr("model.layers.3.enorm.weight"));
}

TEST_F(CheckTensors, SharedExpertsOfZerosAreSaid) {
  config_.experts = {.count = 2, .active = 1, .width = 3, .shared = 1};
  tensors_ = random_tensors(config_);
  EXPECT_THAT(check(config_).warnings, IsEmpty());
  for (const char* layer : {"0", "1"}) {
    for (const char* part : {"up", "gate", "down"}) {
      auto& values = tensors_[std::string("model.layers.") + layer + ".mlp.shared_experts." + part +
                              "_proj.weight"];
      std::fill(values.begin(), values.end(), 0.0);
    }
  }
  EXPECT_THAT(check(config_).warnings,
              testing::ElementsAre(HasSubstr("the shared experts of every layer are zeros")));
}

TEST_F(CheckTensors, UntiedWithoutAHeadNamesBothRemedies) {
  ModelConfig untied = config_;
  untied.tie_word_embeddings = false;
  EXPECT_THAT(refusal(untied),
              AllOf(HasSubstr("`lm_head.weight` is not in the file"), HasSubstr("[13, 20]"),
                    HasSubstr("set tie_word_embeddings to true"),
                    HasSubstr("get a file that holds lm_head.weight")));
}

class TiedWithHead : public CheckTensors {
 protected:
  // The head has the embedding's shape, so it is written through an untied config.
  TensorCheck check_tied() {
    ModelConfig tied = config_;
    config_.tie_word_embeddings = false;
    const TensorCheck result = check(tied);
    config_ = tied;
    return result;
  }
  void SetUp() override { tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"]; }
};

TEST_F(TiedWithHead, EqualHeadIsAccepted) {
  const TensorCheck result = check_tied();
  EXPECT_THAT(result.unread, testing::ElementsAre("lm_head.weight"));
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST_F(TiedWithHead, OneOtherValueIsWarnedOf) {
  tensors_["lm_head.weight"].back() += 0.5;
  const TensorCheck result = check_tied();
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_THAT(result.warnings[0],
              AllOf(HasSubstr("lm_head.weight differs from model.embed_tokens.weight"),
                    HasSubstr("the embedding is used as the head"),
                    HasSubstr("set tie_word_embeddings to false")));
}

}  // namespace
}  // namespace kha
