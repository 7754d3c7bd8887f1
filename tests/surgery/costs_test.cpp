// The memory that surgery takes, counted, and the products of folding against plain loops.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>

#include "core/surgery/head_products.h"
#include "kha/core/error.h"
#include "kha/core/export.h"
#include "kha/core/fold.h"
#include "kha/core/insert.h"
#include "kha/core/parameter_table.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t shard_bytes = 16 << 20;

ModelConfig wide_config() {
  ModelConfig config = tiny_config();
  config.hidden_size = 512;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 64;
  config.intermediate_size = 2048;
  config.num_hidden_layers = 5;
  config.vocab_size = 2000;
  return config;
}

// All zeros, written as holes: what is measured is the memory of going through them.
void write_holes(const fs::path& folder, const ModelConfig& config) {
  fs::create_directories(folder);
  write_text(folder / "config.json", to_config_json(config));
  std::string header;
  std::uint64_t begin = 0;
  for (const auto& spec : parameter_table(config)) {
    const std::uint64_t end = begin + TensorSpec{spec.name, DType::f32, spec.shape}.byte_size();
    std::string shape;
    for (const auto size : spec.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "" : ",", spec.name, shape, begin, end);
    begin = end;
  }
  header = "{" + header + "}";
  const std::uint64_t length = header.size();
  const std::string front(reinterpret_cast<const char*>(&length), sizeof length);
  write_text(folder / "model.safetensors", front + header);
  fs::resize_file(folder / "model.safetensors", 8 + length + begin);
}

std::uint64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

// By how much `work` raised the resident memory, mapped files included.
template <class Work>
std::uint64_t peak_of(const Work& work) {
  std::ofstream("/proc/self/clear_refs") << "5";
  const std::uint64_t before = status_bytes("VmRSS:");
  work();
  return status_bytes("VmHWM:") - std::min(before, status_bytes("VmHWM:"));
}

class SurgeryCosts : public testing::Test {
 protected:
  void SetUp() override {
    write_holes(in_, wide_config());
    InsertOptions options{.knocks = {KnockKind::linear, KnockKind::linear, KnockKind::linear},
                          .shard_size = shard_bytes};
    insert_peak_ = peak_of([&] { insert_maps(in_, mapped_, options); });
  }
  TempFolder folder_;
  fs::path in_ = folder_ / "in", mapped_ = folder_ / "mapped";
  std::uint64_t insert_peak_ = 0;
};

// 70 MB in shards of 16 MB. What stays resident must not grow with the model.
TEST_F(SurgeryCosts, AShardOfMemoryIsEnough) {
  ASSERT_GT(ModelFiles::open(mapped_).data_bytes(), 4 * shard_bytes);
  EXPECT_GE(ModelFiles::open(mapped_).files().size(), 5u);
  EXPECT_LT(insert_peak_, shard_bytes);
  EXPECT_LT(peak_of([&] { fold_model(mapped_, folder_ / "folded"); }), shard_bytes);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto out = folder_ / std::string(safetensors_name(dtype));
    const auto peak = peak_of(
        [&] { export_to_hugging_face(mapped_, out, {.dtype = dtype, .shard_size = shard_bytes}); });
    EXPECT_LT(peak, shard_bytes) << safetensors_name(dtype);
  }
}

struct Sizes {
  std::int64_t rows, columns, width, heads;
};

std::vector<double> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

// Bit for bit the plain loop, whatever the tiles, the threads and the rest of a tile.
TEST(HeadProducts, RowBlocksAreThePlainSums) {
  for (const Sizes& s : {Sizes{9, 1, 2, 3}, Sizes{31, 13, 6, 4}, Sizes{260, 1030, 64, 4},
                         Sizes{1100, 700, 128, 8}, Sizes{9, 8, 7, 1}, Sizes{4, 5, 1, 3}}) {
    const std::int64_t first = 1, stride = (s.rows - 1) / s.heads;  // rows between heads stay
    ASSERT_GE(stride, s.width);
    const auto map = random_values(s.width * s.width, 1);
    const auto start = random_values(s.rows * s.columns, 2);
    auto expected = start, got = start;
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::int64_t top = first + head * stride;
      for (std::int64_t i = 0; i < s.width; ++i) {
        for (std::int64_t j = 0; j < s.columns; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < s.width; ++k) {
            sum += map[i * s.width + k] * start[(top + k) * s.columns + j];
          }
          expected[(top + i) * s.columns + j] = sum;
        }
      }
    }
    multiply_row_blocks(got.data(), s.columns, {s.heads, first, stride}, map.data(), s.width);
    EXPECT_TRUE(got == expected) << s.rows << " x " << s.columns << ", " << s.width;
  }
}

TEST(HeadProducts, ColumnBlocksAreThePlainSums) {
  for (const Sizes& s : {Sizes{1, 6, 2, 3}, Sizes{31, 24, 6, 4}, Sizes{1030, 256, 64, 4},
                         Sizes{700, 1024, 128, 8}, Sizes{5, 7, 7, 1}, Sizes{3, 3, 1, 3}}) {
    const auto map = random_values(s.width * s.width, 3);
    const auto start = random_values(s.rows * s.columns, 4);
    auto expected = start, got = start;
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t column = 0; column < s.columns; ++column) {
        const std::int64_t left = row * s.columns + column / s.width * s.width;
        double sum = 0;
        for (std::int64_t k = 0; k < s.width; ++k) {
          sum += start[left + k] * map[k * s.width + column % s.width];
        }
        expected[row * s.columns + column] = sum;
      }
    }
    multiply_column_blocks(got.data(), s.rows, s.columns, map.data(), s.width);
    EXPECT_TRUE(got == expected) << s.rows << " x " << s.columns << ", " << s.width;
  }
}

}  // namespace
}  // namespace kha
