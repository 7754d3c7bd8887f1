// What a folded model's folder holds.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/thrown.h"
#include "kha/core/fold.h"
#include "kha/core/parameter_table.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using enum KnockKind;

class FoldFiles : public testing::Test {
 protected:
  void SetUp() override { write_model(in_, config_, random_tensors(config_)); }
  std::vector<std::string> entries(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename());
    return names;
  }
  nlohmann::json json_in(const std::string& name) const {
    return nlohmann::json::parse(read_text(out_ / name));
  }

  TempFolder folder_;
  fs::path in_ = folder_ / "in", out_ = folder_ / "out";
  ModelConfig config_ = tiny_config({linear, none, none});
};

TEST_F(FoldFiles, OtherFilesGoAlongAndOldWeightsDoNot) {
  write_text(in_ / "tokenizer.json", "{\"a\": 1}");
  write_text(in_ / "LICENSE", "free");
  write_text(in_ / "generation_config.json", "{\"temperature\": 0.6}");
  write_text(in_ / "pytorch_model.bin", "old");
  write_text(in_ / "pytorch_model.bin.index.json", "{}");
  write_text(in_ / "model.gguf", "old");
  write_text(in_ / ".hidden", "");
  fs::create_directory(in_ / "trainer");
  write_text(in_ / "trainer/state.bin", "old");
  const FoldReport report = fold_model(in_, out_);
  EXPECT_THAT(report.copied,
              testing::ElementsAre("LICENSE", "generation_config.json", "tokenizer.json"));
  EXPECT_THAT(report.left_out, testing::ElementsAre("model.gguf", "pytorch_model.bin",
                                                    "pytorch_model.bin.index.json", "trainer"));
  EXPECT_THAT(entries(out_),
              testing::UnorderedElementsAre("LICENSE", "generation_config.json", "tokenizer.json",
                                            "config.json", "model.safetensors"));
  EXPECT_EQ(read_text(out_ / "tokenizer.json"), "{\"a\": 1}");
  EXPECT_EQ(read_text(out_ / "generation_config.json"), "{\"temperature\": 0.6}");
}

TEST_F(FoldFiles, ConfigsSayWhatTheModelIs) {
  fold_model(in_, out_);
  EXPECT_EQ(json_in("config.json")["model_type"], "qwen3");
  EXPECT_FALSE(json_in("config.json").contains("kha"));
  EXPECT_EQ(json_in("generation_config.json")["eos_token_id"], 3);
}

TEST_F(FoldFiles, ModelFileIsNamedAsLongAsMapsStay) {
  for (const KnockKind kept : {none, gate}) {
    config_ = tiny_config({linear, none, kept});
    write_model(in_, config_, random_tensors(config_));
    auto config = nlohmann::json::parse(read_text(in_ / "config.json"));
    config["auto_map"] = {{"AutoModelForCausalLM", "modeling.KhaForCausalLM"}};
    write_text(in_ / "config.json", config.dump());
    fs::remove_all(out_);
    fold_model(in_, out_);
    EXPECT_EQ(json_in("config.json").contains("auto_map"), kept == gate);
  }
}

TEST_F(FoldFiles, ShardsStayShards) {
  config_ = tiny_config({none, none, mlp});
  const auto sharded = folder_ / "sharded", sharded_out = folder_ / "sharded-out";
  const Tensors tensors = random_tensors(config_);
  write_model(in_, config_, tensors);
  write_sharded_model(sharded, config_, tensors);
  fold_model(in_, out_);
  fold_model(sharded, sharded_out);
  EXPECT_THAT(entries(sharded_out),
              testing::UnorderedElementsAre(
                  "config.json", "generation_config.json", "model.safetensors.index.json",
                  "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  const ModelFiles one = ModelFiles::open(out_), two = ModelFiles::open(sharded_out);
  EXPECT_EQ(two.names().size(), one.names().size());
  for (const auto& name : one.names()) EXPECT_EQ(two.as_double(name), one.as_double(name)) << name;
  const auto index = nlohmann::json::parse(read_text(sharded_out / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], two.data_bytes());
}

TEST_F(FoldFiles, TiedStaysTied) {
  fold_model(in_, out_);
  EXPECT_TRUE(read_model_config(out_).tie_word_embeddings);
  const ModelFiles before = ModelFiles::open(in_), after = ModelFiles::open(out_);
  EXPECT_EQ(after.find("lm_head.weight"), nullptr);
  const uint64_t maps = 2 * 6 * 6 * sizeof(double);
  EXPECT_EQ(after.data_bytes(), before.data_bytes() - maps);
}

TEST_F(FoldFiles, StoredHeadOfATiedModelIsNotWrittenAgain) {
  Tensors tensors = random_tensors(config_);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  tensors["lm_head.weight"][5] += 1;
  ModelConfig untied = config_;
  untied.tie_word_embeddings = false;
  write_model(in_, untied, tensors);
  write_text(in_ / "config.json", to_config_json(config_));
  const FoldReport report = fold_model(in_, out_);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_THAT(report.warnings[0], HasSubstr("the embedding is used"));
  EXPECT_EQ(ModelFiles::open(out_).find("lm_head.weight"), nullptr);
}

TEST_F(FoldFiles, MetadataSaysPt) {
  fold_model(in_, out_);
  EXPECT_EQ(SafetensorsFile::open(out_ / "model.safetensors").metadata().at("format"), "pt");
}

TEST_F(FoldFiles, WhatStandsUnderTheNameStays) {
  fs::create_directory(out_);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }),
              AllOf(HasSubstr("the output exists already"), HasSubstr(out_.string())));
  EXPECT_TRUE(fs::is_empty(out_));
  fs::remove(out_);
  fs::create_symlink("nowhere", out_);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }), HasSubstr("exists already"));
  EXPECT_THAT(thrown([&] { fold_model(in_, in_); }), HasSubstr("exists already"));
}

TEST_F(FoldFiles, OutputMayStandInANewFolderAndEndInASlash) {
  fold_model(in_, folder_ / "a/b/");
  EXPECT_TRUE(fs::exists(folder_ / "a/b/config.json"));
  EXPECT_THAT(entries(folder_ / "a"), testing::ElementsAre("b"));
}

TEST_F(FoldFiles, NothingIsLeftWhenTheInputDoesNotFit) {
  Tensors tensors = random_tensors(config_);
  tensors["extra"] = {1};
  write_model(in_, config_, tensors);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }), HasSubstr("would not read: extra"));
  tensors.erase("extra");
  tensors.erase("model.norm.weight");
  write_model(in_, config_, tensors);
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }), HasSubstr("missing: model.norm.weight"));
  EXPECT_THAT(entries(folder_.path()), testing::ElementsAre("in"));
}

TEST_F(FoldFiles, NothingIsLeftWhenAFileCannotBeCopied) {
  write_text(in_ / "tokenizer.json", "{}");
  fs::permissions(in_ / "tokenizer.json", fs::perms::none);
  if (!thrown([&] { fold_model(in_, out_); }).empty()) {  // root reads everything
    EXPECT_THAT(entries(folder_.path()), testing::ElementsAre("in"));
  }
}

TEST_F(FoldFiles, ADamagedCheckpointIsRefused) {
  write_text(in_ / "MANIFEST.json", "{}");
  EXPECT_THAT(thrown([&] { fold_model(in_, out_); }),
              AllOf(HasSubstr("the checkpoint cannot be used"), HasSubstr("manifest")));
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace kha
