#include <gtest/gtest.h>

#include <cstring>

#include "core/store_testing.h"
#include "kha/core/safetensors.h"

namespace kha {
namespace {

using namespace kha::testing;
using ::testing::ElementsAre;

class SafetensorsWriting : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "out.safetensors";
  const std::vector<TensorSpec> specs_{{"w", DType::f32, {2, 2}}, {"b", DType::bf16, {3}}};
  const std::string w_ = "0123456789abcdef";
  const std::string b_ = "ABCDEF";
};

TEST_F(SafetensorsWriting, ReadsBackWhatWasWritten) {
  SafetensorsWriter writer(path_, specs_, {{"step", "7"}});
  writer.write("w", raw(w_));
  writer.write_part("b", raw(b_).first(2));
  writer.write_part("b", raw(b_).subspan(2));
  EXPECT_FALSE(std::filesystem::exists(path_));
  const FileReport report = writer.finish();
  EXPECT_EQ(report, report_file(path_));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("out.safetensors"));

  const auto file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.tensors()[0].name, "w");
  EXPECT_EQ(file.at("b").dtype, DType::bf16);
  EXPECT_THAT(file.at("w").shape, ElementsAre(2, 2));
  EXPECT_EQ(std::memcmp(file.bytes("w").data(), w_.data(), 16), 0);
  EXPECT_EQ(std::memcmp(file.bytes("b").data(), b_.data(), 6), 0);
  EXPECT_EQ(file.metadata().at("step"), "7");
}

TEST_F(SafetensorsWriting, AlwaysCarriesTheFormatAndAlignsTheData) {
  for (std::size_t length = 1; length < 10; ++length) {
    SafetensorsWriter writer(path_, {{std::string(length, 'n'), DType::f64, {1}}},
                             {{"format", "np"}});
    writer.write(std::string(length, 'n'), raw("12345678"));
    writer.finish();
    const auto file = SafetensorsFile::open(path_);
    EXPECT_EQ(file.metadata().at("format"), "pt");
    const auto start =
        reinterpret_cast<std::uintptr_t>(file.bytes(std::string(length, 'n')).data());
    EXPECT_EQ(start % 8, 0u);
  }
}

TEST_F(SafetensorsWriting, NoTensorsAndEmptyTensors) {
  EXPECT_GT(SafetensorsWriter(path_, {}).finish().size, 8u);
  EXPECT_TRUE(SafetensorsFile::open(path_).tensors().empty());
  SafetensorsWriter writer(
      path_, {{"e", DType::f32, {0, 3}}, {"s", DType::u8, {}}, {"f", DType::i8, {0}}});
  writer.write("s", raw("x"));
  writer.finish();
  EXPECT_EQ(SafetensorsFile::open(path_).tensors().size(), 3u);
}

TEST_F(SafetensorsWriting, RefusesRepeatedNamesAndWrongShapes) {
  const auto error_with = [&](std::vector<TensorSpec> specs) {
    return message_of([&] { SafetensorsWriter(path_, std::move(specs)); });
  };
  expect_parts(error_with({{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}),
               {"the same name", "tensor a"});
  expect_parts(error_with({{"__metadata__", DType::u8, {1}}}), {"may not be called __metadata__"});
  expect_parts(error_with({{"a", DType::u8, {-1}}}), {"negative", "tensor a", "U8 [-1]"});
  expect_parts(error_with({{"a", DType::f64, {1LL << 61}}}), {"too large", "tensor a"});
  expect_parts(error_with({{"\xff", DType::u8, {1}}}), {"not UTF-8"});
  EXPECT_TRUE(names_in(folder_.path()).empty());
}

TEST_F(SafetensorsWriting, RefusesWrongOrderCountsAndMissingTensors) {
  SafetensorsWriter writer(path_, specs_);
  expect_parts(message_of([&] { writer.write("b", raw(b_)); }),
               {"out of order", "expected: w", "found:    b"});
  expect_parts(message_of([&] { writer.write("w", raw("short")); }),
               {"wrong number of bytes", "tensor w", "16 bytes for F32 [2, 2]", "5 bytes"});
  writer.write("w", raw(w_));
  expect_parts(message_of([&] { writer.write_part("b", raw("seven b")); }),
               {"wrong number of bytes", "7 bytes"});
  expect_parts(message_of([&] { writer.finish(); }),
               {"not written", "1 written", "missing:", "\n    b"});
  writer.write("b", raw(b_));
  expect_parts(message_of([&] { writer.write("b", raw(b_)); }),
               {"out of order", "no further tensor"});
  writer.finish();
}

TEST_F(SafetensorsWriting, AbandonedWriterLeavesTheOldFile) {
  put(path_, "old");
  {
    SafetensorsWriter writer(path_, specs_);
    writer.write("w", raw(w_));
  }
  EXPECT_EQ(content(path_), "old");
  EXPECT_EQ(names_in(folder_.path()).size(), 1u);
}

}  // namespace
}  // namespace kha
