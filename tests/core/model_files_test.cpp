#include "kha/core/model_files.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/store_testing.h"

namespace kha {
namespace {

using namespace kha::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* shard_1 = "model-00001-of-00002.safetensors";
constexpr const char* shard_2 = "model-00002-of-00002.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

void write_floats(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::f32, {2}});
  SafetensorsWriter writer(path, specs);
  for (const std::string& name : names) {
    const std::vector<float> values{static_cast<float>(name.size()), -0.5F};
    writer.write(name, std::as_bytes(std::span(values)));
  }
  writer.finish();
}

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    write_floats(folder_ / shard_1, {"embed", "layers.0"});
    write_floats(folder_ / shard_2, {"layers.01"});
    write_index({{"embed", shard_1}, {"layers.0", shard_1}, {"layers.01", shard_2}});
  }
  void write_index(const std::vector<std::pair<std::string, std::string>>& map) {
    std::string text;
    for (const auto& [tensor, file] : map) {
      text += (text.empty() ? "\"" : ",\"") + tensor + "\":\"" + file + "\"";
    }
    put(folder_ / index_file, "{\"metadata\":{\"total_size\":24},\"weight_map\":{" + text + "}}");
  }
  std::string error() {
    return message_of([&] { ModelFiles::open(folder_.path()); });
  }
  TemporaryFolder folder_;
};

TEST_F(ModelFolder, ShardsAreOneTable) {
  for (const auto& path : {folder_.path(), folder_ / index_file}) {
    const auto model = ModelFiles::open(path);
    EXPECT_THAT(model.names(), ElementsAre("embed", "layers.0", "layers.01"));
    EXPECT_THAT(model.as_double("layers.01"), ElementsAre(9.0, -0.5));
    EXPECT_THAT(model.as_float("embed"), ElementsAre(5.0F, -0.5F));
    EXPECT_EQ(model.file_of("layers.01").filename(), shard_2);
    EXPECT_EQ(model.bytes("embed").size(), 8u);
    EXPECT_EQ(model.at("embed").dtype, DType::f32);
    EXPECT_EQ(model.find("none"), nullptr);
    EXPECT_EQ(model.data_bytes(), 24u);
    expect_parts(message_of([&] { model.at("layers.1"); }),
                 {"no tensor `layers.1`", "did you mean"});
  }
}

TEST_F(ModelFolder, SingleFile) {
  const TemporaryFolder other;
  write_floats(other / "model.safetensors", {"a"});
  EXPECT_THAT(ModelFiles::open(other.path()).names(), ElementsAre("a"));
  EXPECT_THAT(ModelFiles::open(other / "model.safetensors").names(), ElementsAre("a"));
}

TEST_F(ModelFolder, TensorOnlyInTheIndexAndOnlyInAShard) {
  write_floats(folder_ / shard_1, {"embed"});
  expect_parts(error(), {"do not agree on 1 tensors", "layers.0: in the index for", shard_1,
                         "not in that file"});
  write_floats(folder_ / shard_1, {"embed", "layers.0", "extra"});
  expect_parts(error(), {"do not agree on 1 tensors", "extra: in", "not in the index"});
}

TEST_F(ModelFolder, TensorInAnotherShardOrInBoth) {
  write_index({{"embed", shard_2}, {"layers.0", shard_1}, {"layers.01", shard_2}});
  expect_parts(error(), {"embed: the index says", shard_2, "it is in", shard_1});
  write_index({{"embed", shard_1}, {"layers.0", shard_1}, {"layers.01", shard_2}});
  write_floats(folder_ / shard_2, {"layers.01", "embed"});
  expect_parts(error(), {"embed: in both", shard_1, shard_2});
}

TEST_F(ModelFolder, ManyDifferencesAreCut) {
  std::vector<std::string> names{"embed", "layers.0"};
  for (int i = 0; i < 30; ++i) names.push_back("x" + std::to_string(i));
  write_floats(folder_ / shard_1, names);
  expect_parts(error(), {"30 tensors", "and 22 more"});
}

TEST_F(ModelFolder, AbsentShardIsNamed) {
  std::filesystem::remove(folder_ / shard_2);
  expect_parts(error(), {"1 of 2 shards", shard_2, "download", index_file});
  EXPECT_THAT(error(), Not(HasSubstr(std::string("\n    ") + shard_1)));
}

TEST_F(ModelFolder, HostileIndexes) {
  put(folder_ / index_file, "{\"weight_map\":{\"a\":\"../../secret\"}}");
  expect_parts(error(), {"no plain file name", "tensor a", "../../secret"});
  put(folder_ / index_file, "{\"weight_map\":{\"a\":7}}");
  expect_parts(error(), {"no plain file name", "7"});
  put(folder_ / index_file, "{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}");
  expect_parts(error(), {"the key `a` twice", index_file});
  put(folder_ / index_file, "{\"weight_map\":{}}");
  expect_parts(error(), {"no weight_map"});
  put(folder_ / index_file, "{\"weight_map\":");
  expect_parts(error(), {"the shard index is not valid JSON", index_file});
  put(folder_ / index_file, "[]");
  expect_parts(error(), {"not a JSON object", "array"});
}

TEST_F(ModelFolder, BothKindsAreAmbiguous) {
  write_floats(folder_ / "model.safetensors", {"a"});
  expect_parts(error(), {"both a whole model and an index", "give the one you mean"});
}

TEST(ModelFiles, FoldersWithoutWeightsSayWhatIsThere) {
  const TemporaryFolder folder;
  const auto error = [&] { return message_of([&] { ModelFiles::open(folder.path()); }); };
  expect_parts(error(), {"no model weights", "model.safetensors or"});
  put(folder / "model-Q8_0.gguf", "GGUF\3");
  expect_parts(error(), {"model-Q8_0.gguf is there", "kha does not read it", "safetensors model"});
  put(folder / "pytorch_model.bin", "PK\3\4");
  std::filesystem::remove(folder / "model-Q8_0.gguf");
  expect_parts(error(), {"pytorch_model.bin is there", "pickle"});
  put(folder / "abc.incomplete", "");
  expect_parts(error(), {"abc.incomplete is there", "not finished"});
}

TEST(ModelFiles, IntegersAreNoWeights) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder / "q.safetensors", {{"q", DType::i8, {1}}});
  writer.write("q", raw("x"));
  writer.finish();
  const auto model = ModelFiles::open(folder / "q.safetensors");
  expect_parts(message_of([&] { model.as_double("q"); }), {"tensor q", "I8", "quantised"});
}

}  // namespace
}  // namespace kha
