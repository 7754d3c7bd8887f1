// Another number of KV heads: what the new tensors hold, what the model then computes.
#include "kha/core/convert.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/surgery/head_count.h"
#include "core/thrown.h"
#include "kha/core/dtype.h"
#include "kha/core/model_files.h"
#include "kha/core/parameter_table.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using enum KnockKind;

class Convert : public testing::Test {
 protected:
  // 4 query heads of width 6, `kv` KV heads, biases.
  void make(int64_t kv, const LayerKnocks& knocks = {}, DType dtype = DType::f64) {
    config_ = tiny_config(knocks);
    config_.num_key_value_heads = kv;
    config_.attention_bias = true;
    tensors_ = random_tensors(config_);
    fs::remove_all(in_);
    write_model(in_, config_, tensors_, dtype);
  }
  std::string refusal(int64_t heads) {
    return thrown([&] { convert_kv_heads(in_, out_, heads); });
  }

  TempFolder folder_;
  fs::path in_ = folder_ / "in", out_ = folder_ / "out";
  ModelConfig config_;
  Tensors tensors_;
};

TEST_F(Convert, TheRotaryLayoutThereAndBackIsTheSameFile) {
  for (const DType dtype : {DType::f64, DType::bf16}) {
    make(2, {linear, mlp, gate}, dtype);
    const fs::path back = folder_ / "back";
    const ConvertReport there = convert_rotary_layout(in_, out_, "interleaved");
    EXPECT_TRUE(there.exact);
    EXPECT_EQ(there.after.rotary_layout, "interleaved");
    EXPECT_EQ(read_model_config(out_), there.after);
    EXPECT_EQ(convert_rotary_layout(out_, back, "half_split").after, config_);
    EXPECT_EQ(read_text(back / "model.safetensors"), read_text(in_ / "model.safetensors"));
    EXPECT_NE(read_text(out_ / "model.safetensors"), read_text(in_ / "model.safetensors"));
    fs::remove_all(out_);
    fs::remove_all(back);
  }
}

// Rows 0, 2, 4 of a head of 6 stand in front in half_split, 1, 3, 5 behind: it was 0 3 1 4 2 5.
TEST_F(Convert, RotatedRowsMoveAndValuesStay) {
  make(2, {none, none, linear});
  convert_rotary_layout(in_, out_, "interleaved");
  const ModelFiles before = ModelFiles::open(in_), after = ModelFiles::open(out_);
  const std::string attention = attention_prefix(1);
  const auto old = before.as_double(attention + "k_proj.bias"),
             now = after.as_double(attention + "k_proj.bias");
  const std::vector<size_t> source{0, 3, 1, 4, 2, 5};
  for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i], old[i / 6 * 6 + source[i % 6]]);
  for (const std::string name : {"v_proj.weight", "v_proj.bias", "knock_v.weight", "o_proj.weight"})
    EXPECT_EQ(after.as_double(attention + name), before.as_double(attention + name)) << name;
  EXPECT_THAT(thrown([&] { convert_rotary_layout(out_, folder_ / "again", "interleaved"); }),
              AllOf(HasSubstr("the rotary layout is interleaved already"), HasSubstr("config.json"),
                    HasSubstr("nothing was written")));
  EXPECT_FALSE(fs::exists(folder_ / "again"));
}

TEST(HeadCount, MeansAndRepeats) {
  const std::vector<double> heads{1, 2, 3, 4, 5, 6, 7, 9};  // 4 heads of 2 elements
  EXPECT_THAT(change_head_count(heads, 4, 2), ElementsAre(2, 3, 6, 7.5));
  EXPECT_THAT(change_head_count(heads, 4, 1), ElementsAre(4, 5.25));
  EXPECT_THAT(change_head_count({1, 2, 3, 4}, 2, 4), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST_F(Convert, PooledHeadsAreMeansOfNeighbours) {
  make(4);
  const ConvertReport report = convert_kv_heads(in_, out_, 2);
  EXPECT_FALSE(report.exact);
  EXPECT_EQ(read_model_config(out_).num_key_value_heads, 2);
  const ModelFiles files = ModelFiles::open(out_);
  const int64_t width = config_.head_dim;
  for (const std::string part : {"k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"}) {
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const std::string name = attention_prefix(layer) + part;
      const auto& old = tensors_.at(name);
      const int64_t inputs = static_cast<int64_t>(old.size()) / (4 * width);
      const auto made = files.as_double(name);
      ASSERT_EQ(made.size(), old.size() / 2) << name;
      for (int64_t head = 0; head < 2; ++head) {
        for (int64_t i = 0; i < width * inputs; ++i) {
          const double mean =
              (old[2 * head * width * inputs + i] + old[(2 * head + 1) * width * inputs + i]) / 2;
          EXPECT_DOUBLE_EQ(made[head * width * inputs + i], mean);
        }
      }
    }
  }
}

// The layer's output in loops of doubles, with QK-norm and every kind of map.
TEST_F(Convert, MoreHeadsComputeTheSame) {
  for (const LayerKnocks& knocks :
       {LayerKnocks{}, LayerKnocks{linear, linear, mlp}, LayerKnocks{gate, mlp, linear}}) {
    for (const int64_t from : {1, 2}) {
      make(from, knocks);
      fs::remove_all(out_);
      const ConvertReport report = convert_kv_heads(in_, out_, 4);
      EXPECT_TRUE(report.exact);
      for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
        EXPECT_LT(largest_difference(attention_output(in_, layer), attention_output(out_, layer)),
                  1e-12);
      }
    }
  }
}

// Heads that are alike lose nothing, so pooling undoes repeating, byte for byte.
TEST_F(Convert, PoolingUndoesRepeating) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    make(1, {none, linear, none}, dtype);
    fs::remove_all(out_);
    fs::remove_all(folder_ / "back");
    convert_kv_heads(in_, out_, 4);
    convert_kv_heads(out_, folder_ / "back", 1);
    EXPECT_EQ(read_text(in_ / "model.safetensors"),
              read_text(folder_ / "back" / "model.safetensors"));
  }
}

TEST_F(Convert, EverythingElseKeepsItsBytes) {
  make(4, {linear, mlp, gate}, DType::bf16);
  write_text(in_ / "tokenizer.json", "{\"a\": 1}");
  const ConvertReport report = convert_kv_heads(in_, out_, 1);
  EXPECT_THAT(report.copied, testing::Contains("tokenizer.json"));
  const ModelFiles before = ModelFiles::open(in_), after = ModelFiles::open(out_);
  EXPECT_EQ(before.names(), after.names());
  for (const auto& name : before.names()) {
    EXPECT_EQ(after.at(name).dtype, DType::bf16);
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
      continue;
    EXPECT_EQ(before.as_double(name), after.as_double(name)) << name;
  }
  EXPECT_EQ(read_model_config(out_).knocks, config_.knocks);
}

TEST_F(Convert, ShardsStayShards) {
  make(4);
  fs::remove_all(in_);
  write_sharded_model(in_, config_, tensors_, DType::f32);
  convert_kv_heads(in_, out_, 2);
  EXPECT_EQ(ModelFiles::open(out_).files().size(), 2u);
  const auto index = nlohmann::json::parse(read_text(out_ / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], ModelFiles::open(out_).data_bytes());
}

TEST_F(Convert, NumbersThatDoNotFitAreRefusedWithThoseThatDo) {
  make(2);
  for (const int64_t heads : {0, -1, 3, 8}) {
    EXPECT_THAT(refusal(heads), AllOf(HasSubstr("cannot be converted to"), HasSubstr("one of 1, 4"),
                                      HasSubstr("4 query heads, 2 KV heads")));
  }
  EXPECT_THAT(refusal(2), HasSubstr("nothing to convert: the model has 2 KV heads already"));
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Convert, OtherSystemsAreRefusedWithTheReason) {
  make(4);
  config_.attention = "gta";
  config_.attention_bias = false;
  config_.rope_head_dim = 2;
  fs::remove_all(in_);
  write_model(in_, config_, random_tensors(config_));
  EXPECT_THAT(refusal(2), AllOf(HasSubstr("the KV heads of attention `gta` cannot be converted"),
                                HasSubstr("tied states and latents are neither")));
}

TEST_F(Convert, TheLayoutOfHeadsTurnedInPartThereAndBackIsTheSameFile) {
  make(2, {linear, mlp, gate});
  config_.rope_head_dim = 4;
  fs::remove_all(in_);
  tensors_ = random_tensors(config_);
  write_model(in_, config_, tensors_, DType::f64);
  convert_rotary_layout(in_, out_, "interleaved");
  convert_rotary_layout(out_, folder_ / "back", "half_split");
  EXPECT_EQ(read_text(folder_ / "back/model.safetensors"), read_text(in_ / "model.safetensors"));
  EXPECT_NE(read_text(out_ / "model.safetensors"), read_text(in_ / "model.safetensors"));
}

TEST_F(Convert, AFolderInTheWayIsNotTouched) {
  make(4);
  write_text(folder_ / "out", "mine");
  EXPECT_THAT(refusal(2), HasSubstr("exists already"));
  EXPECT_EQ(read_text(folder_ / "out"), "mine");
}

TEST_F(Convert, WeightsThatAreNotFiniteAreNamed) {
  make(4);
  tensors_.at("model.layers.1.self_attn.v_proj.weight")[3] = INFINITY;
  fs::remove_all(in_);
  write_model(in_, config_, tensors_);
  EXPECT_THAT(refusal(2), AllOf(HasSubstr("model.layers.1.self_attn.v_proj.weight"),
                                HasSubstr("would not be finite")));
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace kha
