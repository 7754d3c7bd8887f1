// What is checked on an exported folder: that it reads back, and the rules of vLLM's loaders, each
// broken once.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/exchange/read_back.h"
#include "core/exchange/vllm_rules.h"
#include "core/thrown.h"
#include "kha/core/export.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelConfig qwen3() { return tiny_config(); }

ModelConfig llama() {
  ModelConfig c = tiny_config();
  c.qk_norm = false;
  c.attention_bias = true;
  return c;
}

ModelConfig qwen2() {
  ModelConfig c = llama();
  c.output_bias = false;
  c.head_dim = 6;
  c.hidden_size = 24;
  return c;
}

ModelConfig routed(const std::string& router) {
  ModelConfig c = tiny_config();
  c.experts = {.count = 4, .active = 2, .width = 8, .first_dense = 1, .router = router};
  return c;
}

ModelConfig latent() {
  ModelConfig c = routed("sigmoid");
  c.attention = "mla";
  c.num_key_value_heads = c.num_attention_heads;
  c.rope_head_dim = 4;
  c.kv_latent = 10;
  c.latent_heads = 1;
  c.query_latent = 14;
  c.rotary_scaling = {.kind = "yarn",
                      .factor = 4,
                      .original_max_position_embeddings = 16,
                      .mscale = 0.7,
                      .mscale_all_dim = 1.2};
  return c;
}

ModelConfig latent_softmax() {
  ModelConfig c = latent();
  c.experts.router = "softmax";
  c.experts.normalise = false;
  return c;
}

class ExportChecks : public testing::Test {
 protected:
  ExportReport export_model(const ModelConfig& config) {
    fs::remove_all(folder_.path() / "in");
    fs::remove_all(out_);
    write_model(folder_ / "in", config, random_tensors(config), DType::f32);
    return export_to_hugging_face(folder_ / "in", out_);
  }
  // With the key at a JSON pointer set; null removes it.
  std::vector<std::string> broken_with(const std::string& pointer, const json& value) {
    const std::string before = read_text(out_ / "config.json");
    json config = json::parse(before);
    const json::json_pointer place(pointer);
    if (value.is_null()) {
      config.at(place.parent_pointer()).erase(place.back());
    } else {
      config[place] = value;
    }
    write_text(out_ / "config.json", config.dump());
    const auto broken = broken_vllm_rules(out_);
    write_text(out_ / "config.json", before);
    return broken;
  }
  // The tensors written again, each through `change`, which may rename it, or drop it by an empty
  // name.
  std::vector<std::string> broken_after(const std::function<void(TensorSpec&)>& change) {
    const fs::path file = out_ / "model.safetensors", kept = folder_ / "kept.safetensors";
    fs::rename(file, kept);
    {
      const ModelFiles source = ModelFiles::open(kept);
      std::vector<TensorSpec> specs;
      for (const auto& name : source.names()) {
        TensorSpec spec{name, source.at(name).dtype, source.at(name).shape};
        change(spec);
        if (!spec.name.empty()) specs.push_back(spec);
      }
      SafetensorsWriter writer(file, specs);
      for (const auto& spec : specs)
        writer.write(spec.name, std::vector<std::byte>(spec.byte_size()));
      writer.finish();
    }
    const auto broken = broken_vllm_rules(out_);
    fs::rename(kept, file);
    return broken;
  }

  TempFolder folder_;
  fs::path out_ = folder_ / "out";
};

TEST_F(ExportChecks, EveryClassKeepsTheRules) {
  for (const ModelConfig& config : {qwen3(), llama(), qwen2(), routed("softmax"), routed("sigmoid"),
                                    latent(), latent_softmax()}) {
    const ExportReport report = export_model(config);
    SCOPED_TRACE(report.architecture.class_name);
    EXPECT_THAT(broken_vllm_rules(out_), IsEmpty());
    EXPECT_THAT(report.checks, ElementsAre(HasSubstr("read back"), HasSubstr("not executed")));
  }
}

struct Rule {
  ModelConfig (*model)();
  const char* pointer;
  json value;
  const char* expected;
};

ModelConfig glm() { return routed("sigmoid"); }
ModelConfig moe() { return routed("softmax"); }

TEST_F(ExportChecks, EveryKeyRuleCanBreak) {
  const Rule rules[] = {
      {qwen3, "/architectures", {"GPT2LMHeadModel"}, "names no class"},
      {qwen3, "/tie_word_embeddings", nullptr, "`tie_word_embeddings` is absent"},
      {qwen3, "/hidden_act", "gelu", "`hidden_act` is \"gelu\", and must be silu"},
      {qwen3, "/torch_dtype", "float64", "float32, bfloat16 or float16"},
      {qwen3, "/rope_theta", nullptr, "`rope_theta` is absent"},
      {qwen3, "/rope_parameters/rope_type", nullptr, "`rope_parameters.rope_type` is absent"},
      {qwen3, "/rope_parameters/rope_theta", 7.0, "the number that rope_theta has"},
      {qwen3, "/head_dim", nullptr, "its default is hidden_size over the heads"},
      {qwen3, "/max_position_embeddings", 0, "`max_position_embeddings` is 0"},
      {qwen2, "/head_dim", 8, "some releases do not read it"},
      {moe, "/num_experts_per_tok", nullptr, "`num_experts_per_tok` is absent"},
      {moe, "/moe_intermediate_size", nullptr, "`moe_intermediate_size` is absent"},
      {moe, "/norm_topk_prob", nullptr, "defaults differ between the classes"},
      {moe, "/decoder_sparse_step", nullptr, "it has no default"},
      {glm, "/first_k_dense_replace", nullptr, "its default is not 0"},
      {glm, "/first_k_dense_replace", 2, "a model without a layer of experts"},
      {glm, "/n_group", nullptr, "`n_group` is absent"},
      {glm, "/topk_group", nullptr, "`topk_group` is absent"},
      {glm, "/routed_scaling_factor", nullptr, "its default is not 1"},
      {glm, "/use_qk_norm", nullptr, "its default is false"},
      {glm, "/partial_rotary_factor", nullptr, "older releases read it"},
      {glm, "/partial_rotary_factor", 0.5, "what rope_parameters say"},
      {glm, "/rope_parameters/partial_rotary_factor", nullptr, "half of the channels are turned"},
      {latent, "/scoring_func", nullptr, "absent means softmax"},
      {latent_softmax, "/scoring_func", "sigmoid", "else softmax"},
      {latent, "/topk_method", "greedy", "has no selection bias"},
      {latent, "/attention_bias", true, "would drop them without a word"},
      {latent, "/rms_norm_eps", 1e-5, "the norms of the latents have it there"},
      {latent, "/rope_parameters/rope_type", "linear", "any other is computed as yarn"},
      {latent, "/rope_parameters/attention_factor", 1.5, "it is not read"}};
  for (const Rule& rule : rules) {
    export_model(rule.model());
    ASSERT_THAT(broken_vllm_rules(out_), IsEmpty());
    EXPECT_THAT(broken_with(rule.pointer, rule.value), Contains(HasSubstr(rule.expected)))
        << rule.pointer;
  }
}

TEST_F(ExportChecks, EveryTensorRuleCanBreak) {
  export_model(glm());
  const auto broken = [&](const std::string& name, const std::function<void(TensorSpec&)>& change) {
    return broken_after([&](TensorSpec& spec) {
      if (spec.name == name) change(spec);
    });
  };
  const std::string head = "lm_head.weight", q = "model.layers.0.self_attn.q_proj.weight",
                    bias = "model.layers.1.mlp.gate.e_score_correction_bias",
                    shared = "model.layers.1.mlp.shared_experts.up_proj.weight";
  for (const auto& name : {head, q, bias, shared}) {
    EXPECT_THAT(broken(name, [](TensorSpec& spec) { spec.name.clear(); }),
                ElementsAre(AllOf(HasSubstr(name), HasSubstr("is not there"))));
  }
  EXPECT_THAT(broken(q,
                     [](TensorSpec& spec) {
                       spec.shape = {20, 24};
                     }),
              ElementsAre(HasSubstr("is [20, 24], and the class has [24, 20]")));
  EXPECT_THAT(broken(bias, [](TensorSpec& spec) { spec.dtype = DType::bf16; }),
              ElementsAre(HasSubstr("keeps it in float32")));
  EXPECT_THAT(broken("model.norm.weight", [](TensorSpec& spec) { spec.name = "model.normed"; }),
              ElementsAre(HasSubstr("model.norm.weight is not there"),
                          AllOf(HasSubstr("model.normed"), HasSubstr("loading stops at it"))));
}

// Qwen3's class there has no bias behind o_proj, which transformers' class has.
TEST_F(ExportChecks, WhatVllmWouldDropIsAWarning) {
  ModelConfig config = qwen3();
  config.attention_bias = true;
  const ExportReport report = export_model(config);
  EXPECT_THAT(report.warnings, ElementsAre(AllOf(HasSubstr("model.layers.0.self_attn.o_proj.bias"),
                                                 HasSubstr("drops biases without a word")),
                                           HasSubstr("model.layers.1.self_attn.o_proj.bias")));
  EXPECT_THAT(report.checks, ElementsAre(HasSubstr("read back")));
}

TEST_F(ExportChecks, WhatDoesNotReadBackIsSaid) {
  const ModelConfig config = qwen3();
  write_model(folder_ / "in", config, random_tensors(config), DType::f32);
  const ModelFiles source = ModelFiles::open(folder_ / "in");
  std::vector<PlannedTensor> planned;
  for (const auto& name : source.names())
    planned.push_back({.spec = {name, DType::f32, source.at(name).shape}});
  const auto write = [&] {
    fs::remove_all(out_);
    fs::create_directory(out_);
    fs::copy_file(folder_ / "in/config.json", out_ / "config.json");
    return write_sharded_weights(source, planned, 2000, out_);
  };
  WrittenWeights written = write();
  ASSERT_GT(written.files.size(), 2u);
  EXPECT_EQ(thrown([&] { read_back(out_, planned, written); }), "");
  const std::string file = written.files.begin()->first;
  std::string bytes = read_text(out_ / file);
  bytes.back() ^= 1;
  write_text(out_ / file, bytes);
  EXPECT_THAT(thrown([&] { read_back(out_, planned, written); }),
              AllOf(HasSubstr("does not read back"), HasSubstr(file), HasSubstr("checksum")));
  written = write();
  auto other = planned;
  other.front().spec.dtype = DType::bf16;
  EXPECT_THAT(thrown([&] { read_back(out_, other, written); }),
              AllOf(HasSubstr(other.front().spec.name), HasSubstr("BF16")));
  other.pop_back();
  EXPECT_THAT(thrown([&] { read_back(out_, other, written); }),
              HasSubstr("another number of tensors"));
}

}  // namespace
}  // namespace kha
