#include "kha/core/model_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"

namespace kha {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using enum KnockKind;

json small() {
  return json::parse(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
    "vocab_size": 300, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16})");
}

json with(const std::string& key, const json& value) {
  json config = small();
  config[key] = value;
  return config;
}

json without(const std::string& key) {
  json config = small();
  config.erase(key);
  return config;
}

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "m/config.json"); }
std::string refusal(const json& config) {
  return thrown([&] { parse(config); });
}

// What transformers 5 writes for a small model of this kind, key by key.
TEST(ModelConfig, TransformersOwnFileIsRead) {
  json config = small();
  config.update(json::parse(R"({"attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": null, "eos_token_id": [7, 9], "hidden_act": "silu", "initializer_range": 0.02,
    "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
    "max_position_embeddings": 32768, "max_window_layers": 28, "pad_token_id": 3,
    "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "sliding_window": null, "tie_word_embeddings": false, "transformers_version": "5.24.0",
    "dtype": "bfloat16", "use_cache": true, "use_sliding_window": false})"));
  const ModelConfig c = parse(config);
  EXPECT_EQ(c.rope_theta, 1e6);
  EXPECT_EQ(c.rms_norm_eps, 1e-6);
  EXPECT_EQ(c.eos_token_id, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(c.pad_token_id, 3);
  EXPECT_FALSE(c.bos_token_id);
  EXPECT_EQ(c.dtype, "bfloat16");
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_TRUE(c.plain());
}

TEST(ModelConfig, ExplicitHeadWidthWins) {
  const ModelConfig c = parse(small());
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_NE(c.head_dim * c.num_attention_heads, c.hidden_size);
  EXPECT_EQ(c.group(), 2);
}

TEST(ModelConfig, NullAndAbsentAreOneThing) {
  const char* const optional[] = {"head_dim",
                                  "num_key_value_heads",
                                  "rope_scaling",
                                  "sliding_window",
                                  "eos_token_id",
                                  "bos_token_id",
                                  "pad_token_id",
                                  "tie_word_embeddings",
                                  "rms_norm_eps",
                                  "rope_theta",
                                  "attention_bias",
                                  "initializer_range",
                                  "max_position_embeddings",
                                  "torch_dtype",
                                  "kha",
                                  "layer_types"};
  for (const char* key : optional) {
    EXPECT_EQ(parse(with(key, nullptr)), parse(without(key))) << key;
  }
  const ModelConfig c = parse(with("head_dim", nullptr));
  EXPECT_EQ(c.head_dim, 128);  // the class default, not width over heads
}

TEST(ModelConfig, KvHeadsEqualHeadsExplicitAndAbsent) {
  const ModelConfig written = parse(with("num_key_value_heads", 4));
  EXPECT_EQ(written, parse(without("num_key_value_heads")));
  EXPECT_EQ(written.num_key_value_heads, 4);
  EXPECT_EQ(written.group(), 1);
}

TEST(ModelConfig, MissingSizesAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    EXPECT_THAT(refusal(without(key)), AllOf(HasSubstr("`" + std::string(key) + "` is missing"),
                                             HasSubstr("m/config.json")));
    EXPECT_THAT(refusal(with(key, nullptr)), HasSubstr("`" + std::string(key) + "` is missing"));
  }
}

TEST(ModelConfig, BothSpellingsOfTheRotaryBase) {
  const ModelConfig top = parse(with("rope_theta", 5e5));
  EXPECT_EQ(top.rope_theta, 5e5);
  EXPECT_EQ(top, parse(with("rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}})));
  EXPECT_EQ(top, parse(with("rope_parameters", {{"rope_theta", 5e5}})));
  json both = with("rope_theta", 1e4);
  both["rope_parameters"] = {{"rope_theta", 5e5}};
  EXPECT_EQ(parse(both).rope_theta, 5e5);
  EXPECT_EQ(parse(small()).rope_theta, 1e4);
}

TEST(ModelConfig, OtherRotaryScalingIsRefusedByItsName) {
  for (const char* kind : {"proportional", "mrope"}) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      for (const char* word : {"type", "rope_type"}) {
        EXPECT_THAT(refusal(with(key, {{word, kind}, {"factor", 2.0}})),
                    AllOf(HasSubstr("rotary scaling of this kind is not supported"), HasSubstr(key),
                          HasSubstr(kind), HasSubstr("rope_type `default`")));
      }
    }
  }
  EXPECT_THAT(refusal(with("rope_parameters", {{"factor", 2.0}})),
              AllOf(HasSubstr("unknown key `factor`"), HasSubstr("rope_parameters")));
  EXPECT_THAT(refusal(with("rope_parameters", {{"partial_rotary_factor", 0.5}})),
              AllOf(HasSubstr("partial rotary is not supported in this kind of model"),
                    HasSubstr("glm4_moe"), HasSubstr("0.5")));
  EXPECT_THAT(refusal(with("rope_scaling", "yarn")),
              HasSubstr("`rope_scaling` has the wrong type"));
}

TEST(ModelConfig, WhatTheModelDoesNotComputeIsRefused) {
  EXPECT_THAT(refusal(with("num_experts", 8)), AllOf(HasSubstr("experts are not supported"),
                                                     HasSubstr("`num_experts`"), HasSubstr("8")));
  EXPECT_THAT(refusal(with("num_local_experts", 8)),
              AllOf(HasSubstr("experts are not supported"), HasSubstr("`qwen3_moe`, `glm4_moe`")));
  EXPECT_THAT(refusal(with("use_sliding_window", true)),
              HasSubstr("sliding windows are not supported"));
  EXPECT_THAT(refusal(with("layer_types", {"full_attention", "sliding_attention"})),
              AllOf(HasSubstr("sliding windows"), HasSubstr("sliding_attention")));
  EXPECT_THAT(refusal(with("layer_types", 4)), HasSubstr("`layer_types` has the wrong type"));
  EXPECT_THAT(refusal(with("hidden_act", "gelu")),
              AllOf(HasSubstr("activation"), HasSubstr("gelu")));
  EXPECT_THAT(refusal(with("attention_dropout", 0.1)), HasSubstr("dropout is not supported"));
  EXPECT_THAT(refusal(with("model_type", "gpt2")),
              AllOf(HasSubstr("kind of model is not supported"), HasSubstr("gpt2"),
                    HasSubstr("llama, mistral")));
  EXPECT_THAT(refusal(with("model_type", "qwen3_next")), HasSubstr("qwen3_next"));
}

TEST(ModelConfig, UnknownKeyNamesTheNearest) {
  EXPECT_THAT(refusal(with("num_key_value_head", 2)),
              AllOf(HasSubstr("unknown key `num_key_value_head`"),
                    HasSubstr("did you mean `num_key_value_heads`?"), HasSubstr("m/config.json")));
  EXPECT_THAT(refusal(with("zzzzzzzzzzzzzzzzzzzzzzzz", 1)), Not(HasSubstr("did you mean")));
}

TEST(ModelConfig, WrongTypesNameKeyExpectedAndFound) {
  EXPECT_THAT(refusal(with("hidden_size", "48")),
              AllOf(HasSubstr("`hidden_size` has the wrong type"), HasSubstr("a whole number"),
                    HasSubstr("\"48\"")));
  EXPECT_THAT(refusal(with("hidden_size", 48.5)), HasSubstr("a whole number"));
  EXPECT_THAT(refusal(with("rms_norm_eps", "1e-6")), HasSubstr("a number"));
  EXPECT_THAT(refusal(with("tie_word_embeddings", 1)), HasSubstr("true or false"));
  EXPECT_THAT(refusal(with("torch_dtype", 16)), HasSubstr("a text"));
  EXPECT_THAT(refusal(with("eos_token_id", {1, "two"})), HasSubstr("an id or a list of ids"));
  EXPECT_THAT(refusal(with("kha", 3)),
              AllOf(HasSubstr("`kha` has the wrong type"), HasSubstr("an object")));
  EXPECT_THAT(refusal(with("kha", {{"layers", {{"0", 3}}}})),
              HasSubstr("`layers.0` has the wrong type"));
  EXPECT_THAT(refusal(with("kha", {{"layers", {1, 2}}})), HasSubstr("`layers` has the wrong type"));
}

TEST(ModelConfig, HostileSizesAreRefusedAtOnce) {
  const std::vector<json> values{0, -1, int64_t{1} << 40, INT64_MAX, INT64_MIN, UINT64_MAX};
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& value : values) {
      EXPECT_THAT(refusal(with(key, value)),
                  AllOf(HasSubstr("does not make a model"), HasSubstr("a whole number from 1 to"),
                        HasSubstr(key)))
          << key << " = " << value;
    }
  }
  EXPECT_THAT(refusal(with("num_hidden_layers", 2000000000)), HasSubstr("from 1 to 10000"));
}

TEST(ModelConfig, SizesThatMultiplyToNoModelAreRefused) {
  json wide = with("head_dim", 1 << 24);
  EXPECT_THAT(refusal(wide), AllOf(HasSubstr("`head_dim`"), HasSubstr("rows in a projection")));
  json huge = with("hidden_size", 1 << 24);
  huge["intermediate_size"] = 1 << 24;
  huge["num_hidden_layers"] = 10000;
  EXPECT_THAT(refusal(huge), HasSubstr("fewer than 2^52 parameters"));
}

TEST(ModelConfig, SizesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal(with("head_dim", 15)),
              AllOf(HasSubstr("`head_dim`"), HasSubstr("an even number"), HasSubstr("15")));
  EXPECT_THAT(
      refusal(with("num_key_value_heads", 3)),
      AllOf(HasSubstr("`num_key_value_heads`"), HasSubstr("a divisor of num_attention_heads"),
            HasSubstr("4 query heads, 3 KV heads")));
  EXPECT_THAT(refusal(with("num_key_value_heads", 8)), HasSubstr("a divisor"));
  EXPECT_THAT(refusal(with("eos_token_id", 300)),
              AllOf(HasSubstr("`eos_token_id`"), HasSubstr("0 to 299")));
  EXPECT_THAT(refusal(with("eos_token_id", {1, -2})), HasSubstr("-2"));
  EXPECT_THAT(refusal(with("bos_token_id", -1)), HasSubstr("`bos_token_id`"));
  EXPECT_THAT(refusal(with("rms_norm_eps", 0)), HasSubstr("`rms_norm_eps`"));
  EXPECT_THAT(refusal(with("rope_theta", -1e4)), HasSubstr("`rope_theta`"));
  EXPECT_THAT(refusal(with("initializer_range", 0)), HasSubstr("`initializer_range`"));
}

TEST(ModelConfig, TextThatIsNoJsonObjectIsRefused) {
  const std::pair<std::string, std::string> texts[] = {
      {"", "is an empty file"},
      {"[]", "is not a JSON object"},
      {"3", "is not a JSON object"},
      {"{", "is not valid JSON"},
      {"{\"a\": 1}}", "is not valid JSON"},
      {"{\"rope_theta\": NaN}", "config.json, byte 16"},
      {"{\"rope_theta\": -Infinity}", "is not valid JSON"},
      {"{\"rope_theta\": 1e999}", "a number that is too large"},
      {"{\"rope_theta\": " + std::string(400, '9') + "}", "a number that is too large"},
      {"\xff\xfe{", "is not valid JSON"},
      {"{\"a\": \"\xff\"}", "is not valid JSON"},
      {"{\"hidden_size\": 48, \"hidden_size\": 40}", "has the key `hidden_size` twice"},
      {std::string(100000, '['), "nested too deeply"},
  };
  for (const auto& [text, words] : texts) {
    EXPECT_THAT(thrown([&] { parse_model_config(text, "m/config.json"); }),
                AllOf(HasSubstr(words), HasSubstr("m/config.json")))
        << text.substr(0, 60);
  }
}

TEST(ModelConfig, WhatStandsInItsPlaceIsNamed) {
  const std::pair<std::string, std::string> files[] = {
      {"GGUF\3", "a GGUF file"},
      {"PK\3\4", "a zip archive"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 726\n", "git lfs pull"},
      {"<!DOCTYPE html><html>", "a web page"},
  };
  for (const auto& [text, words] : files) {
    EXPECT_THAT(thrown([&] { parse_model_config(text, "m/config.json"); }),
                AllOf(HasSubstr("is no JSON file"), HasSubstr(words), HasSubstr("m/config.json"),
                      Not(HasSubstr("safetensors"))));
  }
}

TEST(ModelConfig, LongAndControllingTextIsShownSafely) {
  const std::string long_key(100000, 'k');
  EXPECT_LT(refusal(with(long_key, 1)).size(), 1000u);
  EXPECT_LT(refusal(with("hidden_size", long_key)).size(), 1000u);
  EXPECT_LT(refusal(with("hidden_act", long_key)).size(), 1000u);
  for (const char* key : {"model_type", "hidden_act", "\x1b[2J"}) {
    EXPECT_THAT(refusal(with(key, "\x1b[31mred")), Not(HasSubstr("\x1b"))) << key;
  }
}

TEST(ModelConfig, FolderWithoutAConfigSaysWhatToName) {
  EXPECT_THAT(thrown([] { read_model_config("no-such-folder"); }),
              AllOf(HasSubstr("no config.json here"), HasSubstr("no-such-folder"),
                    HasSubstr("checkpoints/latest")));
}

json with_maps(const json& kha) {
  json config = with("kha", kha);
  config["model_type"] = "kha";
  return config;
}

TEST(ModelConfig, MapsAreReadPerLayer) {
  const ModelConfig c =
      parse(with_maps({{"version", 1},
                       {"base", "qwen3"},
                       {"attention", "gqa"},
                       {"v", "mlp"},
                       {"layers", {{"1", {{"v", "none"}}}, {"3", {{"q", "linear"}}}}}}));
  EXPECT_EQ(c.knocks.at(0), (LayerKnocks{none, none, mlp}));
  EXPECT_EQ(c.knocks.at(1), (LayerKnocks{none, none, none}));
  EXPECT_EQ(c.knocks.at(3), (LayerKnocks{linear, none, mlp}));
}

TEST(ModelConfig, WrongMapsAreRefused) {
  EXPECT_THAT(
      refusal(with_maps({{"v", "mpl"}})),
      AllOf(HasSubstr("unknown kind of map `mpl` (did you mean `mlp`?)"), HasSubstr("`v`")));
  EXPECT_THAT(refusal(with_maps({{"w", "mlp"}})), HasSubstr("unknown key `w`"));
  EXPECT_THAT(refusal(with_maps({{"v", "mlp"}, {"attention", "gka"}})),
              HasSubstr("unknown attention `gka`"));
  EXPECT_THAT(refusal(with_maps({{"v", "mlp"}, {"base", "gpt2"}})),
              HasSubstr("unknown base model"));
  EXPECT_THAT(refusal(with_maps({{"v", "mlp"}, {"version", 2}})),
              AllOf(HasSubstr("written by a newer kha"), HasSubstr("2")));
  EXPECT_THAT(refusal(with_maps({{"layers", {{"4", {{"v", "mlp"}}}}}, {"v", "mlp"}})),
              AllOf(HasSubstr("`kha.layers`"), HasSubstr("a layer from 0 to 3")));
  EXPECT_THAT(refusal(with_maps({{"layers", {{"-1", {{"v", "mlp"}}}}}})),
              HasSubstr("not a layer number"));
  EXPECT_THAT(refusal(with_maps({{"layers", {{"99999999999999999999", {{"v", "mlp"}}}}}})),
              HasSubstr("not a layer number"));
}

TEST(ModelConfig, ModelTypeAndMapsMustAgree) {
  const auto contradict = HasSubstr("contradict each other");
  EXPECT_THAT(refusal(with("model_type", "kha")),
              AllOf(contradict, HasSubstr("`kha` without maps")));
  EXPECT_THAT(refusal(with("kha", {{"v", "mlp"}})),
              AllOf(contradict, HasSubstr("`qwen3` with maps")));
  EXPECT_THAT(refusal(with_maps({{"v", "none"}})), contradict);
}

void expect_round_trip(const ModelConfig& c) {
  EXPECT_EQ(parse_model_config(to_config_json(c), "written"), c) << to_config_json(c);
}

TEST(ModelConfig, WrittenTextReadsBackEqual) {
  ModelConfig c = parse(small());
  expect_round_trip(c);
  c.tie_word_embeddings = true;
  c.attention_bias = true;
  c.rope_theta = 12345.678901234567;
  c.rms_norm_eps = 3e-7;
  c.bos_token_id = 0;
  c.pad_token_id = 299;
  c.eos_token_id = {5};
  c.dtype = "bfloat16";
  c.max_position_embeddings = 777;
  c.initializer_range = 0.006;
  expect_round_trip(c);
  c.eos_token_id = {5, 6};
  c.knocks = {.all = {linear, none, mlp}, .layers = {{0, {}}, {2, {gate, mlp, none}}}};
  expect_round_trip(c);
}

TEST(ModelConfig, OnlyAPlainModelSaysQwen3) {
  ModelConfig c = parse(small());
  const json plain = json::parse(to_config_json(c));
  EXPECT_EQ(plain["model_type"], "qwen3");
  EXPECT_EQ(plain["architectures"], json::array({"Qwen3ForCausalLM"}));
  EXPECT_FALSE(plain.contains("kha"));
  c.knocks.layers[2] = {none, none, gate};
  const json mapped = json::parse(to_config_json(c));
  EXPECT_EQ(mapped["model_type"], "kha");
  EXPECT_EQ(mapped["architectures"], json::array({"KhaForCausalLM"}));
  EXPECT_EQ(mapped["kha"], json::parse(R"({"version": 1, "base": "qwen3", "attention": "gqa",
    "q": "none", "k": "none", "v": "none", "layers": {"2": {"v": "gate"}}})"));
}

TEST(ModelConfig, BothRotarySpellingsAreWritten) {
  const json written = json::parse(to_config_json(parse(with("rope_theta", 5e5))));
  EXPECT_EQ(written["rope_theta"], 5e5);
  EXPECT_EQ(written["rope_parameters"], (json{{"rope_type", "default"}, {"rope_theta", 5e5}}));
}

TEST(ModelConfig, GenerationConfigHoldsTheIds) {
  ModelConfig c = parse(with("eos_token_id", {5, 6}));
  c.pad_token_id = 3;
  EXPECT_EQ(json::parse(to_generation_config_json(c)),
            json::parse(R"({"_from_model_config": true, "bos_token_id": null,
                            "eos_token_id": [5, 6], "pad_token_id": 3})"));
}

}  // namespace
}  // namespace kha
