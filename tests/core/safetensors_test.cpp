#include "kha/core/safetensors.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/store_testing.h"

namespace kha {
namespace {

using namespace kha::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Safetensors : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    put(path_, text);
    return message_of([&] { SafetensorsFile::open(path_); });
  }
  // Of a file with this header and so many bytes of data.
  std::string header_error(const std::string& header, std::size_t data_bytes) {
    return error_of(safetensors_text(header, data_bytes));
  }
  SafetensorsFile opened(const std::string& header, std::size_t data_bytes) {
    return SafetensorsFile::open(put(path_, safetensors_text(header, data_bytes)));
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST_F(Safetensors, ReadsNamesShapesAndBytes) {
  const auto file = opened("{" + entry("b", "F32", "[2, 2]", "[4,20]") + "," +
                               entry("a", "BF16", "[2]", "[0,4]") + "," +
                               entry("none", "F64", "[0, 7]", "[4,4]") + "}",
                           20);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "none");
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_EQ(file.at("b").dtype, DType::f32);
  EXPECT_THAT(file.at("b").shape, ElementsAre(2, 2));
  EXPECT_EQ(file.at("b").element_count(), 4);
  EXPECT_EQ(file.bytes("b").size(), 16u);
  EXPECT_EQ(file.bytes("none").size(), 0u);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, AbsentNameSuggestsTheNearest) {
  const auto file = opened("{" + entry("layers.0.q_proj.weight", "U8", "[]", "[0,1]") + "}", 1);
  expect_parts(message_of([&] { file.at("layers.0.k_proj.weight"); }),
               {"no tensor `layers.0.k_proj.weight`", "did you mean `layers.0.q_proj.weight`",
                "model.safetensors"});
}

TEST_F(Safetensors, ForeignFilesAreNamed) {
  const std::string rest(300, '\7');
  expect_parts(error_of("PK\3\4" + rest), {"no safetensors file", "zip", "PyTorch"});
  expect_parts(error_of("\x80\x02\x8a\x0a" + rest), {"no safetensors file", "pickle"});
  expect_parts(error_of("GGUF\3" + rest), {"GGUF", "model.safetensors"});
  expect_parts(error_of("<!DOCTYPE html><html>login</html>"), {"web page", "download"});
  expect_parts(error_of("\r\n  <HTML><body>502</body>"), {"web page"});
  expect_parts(error_of("{\"metadata\": {}}"), {"a JSON file"});
  const std::string pointer = error_of(
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 4967215360\n");
  expect_parts(pointer, {"git-lfs pointer", "4967215360 bytes", "git lfs pull"});
  for (const char* message : {"header", "length"}) EXPECT_THAT(pointer, Not(HasSubstr(message)));
}

// 0x0280 bytes of header: the length then starts as a pickle does.
TEST_F(Safetensors, HeaderLengthThatLooksLikeAPickleIsRead) {
  std::string header = "{" + entry("a", "U8", "[1]", "[0,1]") + "}";
  header.resize(0x280, ' ');
  EXPECT_EQ(opened(header, 1).tensors().size(), 1u);
}

TEST_F(Safetensors, CutAndOversizedHeaders) {
  expect_parts(error_of(""), {"is empty", "unfinished download"});
  expect_parts(error_of("abc"), {"too short", "3 bytes"});
  const std::string whole = safetensors_text("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 4);
  expect_parts(error_of(whole.substr(0, 30)),
               {"ends inside its header", "22 bytes", "unfinished download"});
  expect_parts(error_of(whole.substr(0, whole.size() - 1)),
               {"past the end", "tensor a", "3 bytes of data", "[0, 4)", "unfinished download"});
  std::string huge(16, '\xff');
  expect_parts(error_of(huge), {"over the limit", "100000000", "18446744073709551615"});
}

TEST_F(Safetensors, RepeatedNamesAreRefused) {
  const std::string a = entry("a", "U8", "[4]", "[0,4]");
  expect_parts(header_error("{" + a + "," + a + "}", 4), {"names `a` twice", "model.safetensors"});
  const std::string other = entry("a", "U8", "[4]", "[4,8]");
  expect_parts(header_error("{" + a + "," + other + "}", 8), {"names `a` twice"});
  expect_parts(
      header_error(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
      {"names `dtype` twice", "tensor a"});
  expect_parts(header_error(R"({"__metadata__":{"x":"1","x":"2"}})", 0),
               {"metadata", "twice", "key x"});
}

TEST_F(Safetensors, OverlapGapAndTrailingBytesNameTheTensors) {
  const std::string k = entry("k_proj", "F32", "[4,4]", "[0,64]");
  expect_parts(header_error("{" + k + "," + entry("v_proj", "F32", "[4,4]", "[0,64]") + "}", 64),
               {"claim the same bytes", "k_proj [0, 64)", "v_proj [0, 64)"});
  expect_parts(header_error("{" + k + "," + entry("v_proj", "F32", "[4,4]", "[60,124]") + "}", 124),
               {"claim the same bytes", "k_proj", "v_proj [60, 124)"});
  expect_parts(header_error("{" + k + "," + entry("v_proj", "F32", "[4,4]", "[68,132]") + "}", 132),
               {"gap", "4 bytes between k_proj", "v_proj [68, 132)"});
  expect_parts(header_error("{" + entry("v", "U8", "[4]", "[2,6]") + "}", 6),
               {"gap", "2 bytes between the header and v"});
  expect_parts(header_error("{" + k + "}", 65),
               {"after its last tensor", "64 bytes", "k_proj", "65 bytes"});
  expect_parts(header_error("{}", 1), {"after its last tensor", "0 bytes"});
}

TEST_F(Safetensors, HostileOffsets) {
  const auto with = [&](const std::string& offsets) {
    return header_error("{" + entry("a", "U8", "[4]", offsets) + "}", 4);
  };
  expect_parts(with("[4,0]"), {"ends before it begins", "tensor a", "[4, 0)"});
  expect_parts(with("[0,5]"), {"past the end", "tensor a", "4 bytes of data"});
  expect_parts(with("[18446744073709551608,18446744073709551612]"),
               {"past the end", "18446744073709551608"});
  expect_parts(with("[18446744073709551608,4]"), {"ends before it begins"});
  expect_parts(with("[-4,0]"), {"negative", "data_offsets", "-4", "tensor a"});
  expect_parts(with("[0,4.0]"), {"no 64-bit whole number", "4.0"});
  expect_parts(with("[0,18446744073709551616]"),
               {"no 64-bit whole number", "18446744073709551616"});
  expect_parts(with("[0,\"4\"]"), {"wrong kind", "a whole number", "the string \"4\""});
  expect_parts(with("[0]"), {"no pair", "1 numbers"});
  expect_parts(with("[0,4,4]"), {"no pair", "3 numbers"});
  expect_parts(with("[[0,4]]"), {"wrong kind", "an array"});
  expect_parts(with("null"), {"wrong kind", "null"});
}

TEST_F(Safetensors, HostileShapes) {
  const auto with = [&](const std::string& shape) {
    return header_error("{" + entry("a", "F32", shape, "[0,16]") + "}", 16);
  };
  EXPECT_EQ(with("[4]"), "no error");
  expect_parts(with("[5]"),
               {"does not match its bytes", "20 bytes for F32 [5]", "16 bytes [0, 16)"});
  expect_parts(with("[]"), {"does not match its bytes", "4 bytes for F32 []"});
  expect_parts(with("[4294967296,4294967296]"), {"too large for 64 bits", "4294967296"});
  // The product wraps to exactly 16 bytes.
  expect_parts(with("[4611686018427387905, 4]"), {"too large for 64 bits"});
  expect_parts(with("[-4]"), {"the shape", "negative", "-4"});
  expect_parts(with("[9223372036854775808]"), {"dimension", "too large"});
  expect_parts(with("4"), {"wrong kind for `shape`", "found:    4"});
}

TEST_F(Safetensors, BrokenHeaders) {
  expect_parts(header_error("{\"a\":", 0), {"not valid JSON", "byte"});
  expect_parts(header_error("{} x", 0), {"not valid JSON"});
  expect_parts(header_error(std::string("{}\0\0", 4), 0), {"zero byte", "byte 10"});
  expect_parts(header_error("[1]", 0), {"wrong kind", "an object"});
  expect_parts(header_error("7", 0), {"wrong kind"});
  expect_parts(header_error("{\"a\":3}", 0), {"wrong kind for `a`", "3"});
  expect_parts(header_error("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1),
               {"no `data_offsets`", "tensor a"});
  expect_parts(header_error("{" + entry("a", "F3", "[1]", "[0,1]") + "}", 1),
               {"unknown dtype", "F3", "tensor a"});
  expect_parts(header_error("{\"a\":{\"dtype\":7}}", 1),
               {"wrong kind for `dtype`", "a dtype name", "7"});
  expect_parts(header_error("{\"a\":{\"strides\":[1]}}", 1), {"unknown key", "strides"});
  expect_parts(header_error("{\"\xff\xfe\":3}", 0), {"not valid JSON"});
  expect_parts(header_error(std::string(200'000, '['), 0), {"wrong kind"});
  expect_parts(header_error("{\"\\u001b[31m\":1}", 0), {"\\x1b[31m"});
}

TEST_F(Safetensors, MetadataAbsentEmptyNullOrStrings) {
  const std::string a = entry("a", "U8", "[1]", "[0,1]");
  EXPECT_TRUE(opened("{" + a + "}", 1).metadata().empty());
  EXPECT_TRUE(opened("{\"__metadata__\":{}," + a + "}", 1).metadata().empty());
  EXPECT_TRUE(opened("{\"__metadata__\":null," + a + "}", 1).metadata().empty());
  const auto file = opened("{\"__metadata__\":{\"format\":\"pt\"}," + a + "}", 1);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensors().size(), 1u);
  expect_parts(header_error("{\"__metadata__\":{\"step\":5}," + a + "}", 1),
               {"no string", "__metadata__ key step", "a string", "found:    5"});
  expect_parts(header_error("{\"__metadata__\":{\"x\":{}}}", 0), {"no string", "an object"});
  expect_parts(header_error("{\"__metadata__\":[]}", 0),
               {"wrong kind for `__metadata__`", "an array"});
}

// 3 GiB, most of it a hole: offsets beyond 2^31 and 2^32 bits of bytes.
TEST_F(Safetensors, OffsetsBeyondTwoToTheThirtyOne) {
  const std::uint64_t filler = std::uint64_t{3} << 30;
  std::string text = safetensors_text(
      "{" +
          entry("filler", "U8", "[" + std::to_string(filler) + "]",
                "[0," + std::to_string(filler) + "]") +
          "," +
          entry("far", "U8", "[16]",
                "[" + std::to_string(filler) + "," + std::to_string(filler + 16) + "]") +
          "}",
      0);
  put(path_, text);
  const int file = ::open(path_.c_str(), O_WRONLY);
  const char far_bytes[] = "0123456789abcdef";
  EXPECT_EQ(::pwrite(file, far_bytes, 16, static_cast<off_t>(text.size() + filler)), 16);
  ::close(file);
  const auto opened = SafetensorsFile::open(path_);
  EXPECT_EQ(opened.at("filler").element_count(), static_cast<std::int64_t>(filler));
  const auto bytes = opened.bytes("far");
  EXPECT_EQ(std::memcmp(bytes.data(), far_bytes, 16), 0);
}

}  // namespace
}  // namespace kha
