#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>

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

// What a pipe's other end got: the first bytes, the last ones and how many there were.
struct Received {
  std::string first, last;
  std::uint64_t size = 0;
};

Received receive(const std::filesystem::path& pipe) {
  Received got;
  const int file = ::open(pipe.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> buffer(1 << 20);
  for (ssize_t count; (count = ::read(file, buffer.data(), buffer.size())) > 0;) {
    const std::string_view piece(buffer.data(), static_cast<std::size_t>(count));
    if (got.first.size() < 4096) got.first += piece.substr(0, 4096);
    got.last += piece.substr(piece.size() - std::min<std::size_t>(16, piece.size()));
    got.last.erase(0, got.last.size() - std::min<std::size_t>(16, got.last.size()));
    got.size += piece.size();
  }
  ::close(file);
  return got;
}

// More than 2^31 bytes in front of a tensor, through a pipe, which keeps none of them.
TEST_F(SafetensorsWriting, OffsetsBeyondTwoToTheThirtyOne) {
  constexpr std::int64_t filler = (std::int64_t{1} << 31) + 24;
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  std::future<Received> receiving = std::async(std::launch::async, receive, path_);
  SafetensorsWriter writer(path_, {{"filler", DType::u8, {filler}}, {"far", DType::u8, {16}}});
  const std::vector<std::byte> zeros(1 << 20);
  for (std::int64_t left = filler; left > 0;) {
    const auto part = static_cast<std::size_t>(std::min<std::int64_t>(left, 1 << 20));
    writer.write_part("filler", std::span(zeros).first(part));
    left -= static_cast<std::int64_t>(part);
  }
  writer.write("far", raw(w_));
  const FileReport report = writer.finish();
  const Received got = receiving.get();
  EXPECT_EQ(got.last, w_);
  EXPECT_EQ(got.size, report.size);
  std::uint64_t header = 0;
  std::memcpy(&header, got.first.data(), 8);
  EXPECT_EQ(got.size, 8 + header + static_cast<std::uint64_t>(filler) + 16);
  expect_parts(got.first.substr(8, header), {"[0,2147483672]", "[2147483672,2147483688]"});
}

}  // namespace
}  // namespace kha
