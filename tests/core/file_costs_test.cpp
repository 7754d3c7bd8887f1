// What opening and sealing cost, in pages and calls, which no other load of the machine can change.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "core/store/manifest.h"
#include "core/store/written_files.h"
#include "core/store_testing.h"
#include "kha/core/model_files.h"

namespace kha {
namespace {

using namespace kha::testing;

constexpr std::int64_t tensors = 64;

// Of holes alone, so that it takes no room: `tensors` tensors of this many bytes.
std::filesystem::path sparse_model(const std::filesystem::path& path, std::int64_t bytes_each) {
  std::string header = "{";
  for (std::int64_t i = 0; i < tensors; ++i) {
    header += (i ? ",\"layers." : "\"layers.") + std::to_string(i + 100) +
              R"(.weight":{"dtype":"U8","shape":[)" + std::to_string(bytes_each) +
              "],\"data_offsets\":[" + std::to_string(i * bytes_each) + "," +
              std::to_string((i + 1) * bytes_each) + "]}";
  }
  put(path, safetensors_text(header + "}", 0));
  std::filesystem::resize_file(
      path, std::filesystem::file_size(path) + static_cast<std::uintmax_t>(tensors * bytes_each));
  return path;
}

struct Cost {
  long faults = 0;         // pages that became this process's
  std::int64_t pages = 0;  // by which the resident memory grew
};

std::int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

template <class Action>
Cost cost_of(const Action& action) {
  struct rusage before {
  }, after{};
  const std::int64_t resident = resident_pages();
  ::getrusage(RUSAGE_SELF, &before);
  action();
  ::getrusage(RUSAGE_SELF, &after);
  return {after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
          resident_pages() - resident};
}

TEST(FileCosts, OpeningTouchesTheHeaderWhateverTheSize) {
  const TemporaryFolder folder;
  const auto small = sparse_model(folder / "small.safetensors", 64 << 10);
  const auto large = sparse_model(folder / "large.safetensors", std::int64_t{256} << 20);
  EXPECT_EQ(ModelFiles::open(large).data_bytes(), std::uint64_t{16} << 30);
  ModelFiles::open(small);  // what is allocated once is there now
  Cost of_small, of_large;
  const auto open_both = [&] {
    const auto first = [&] { const auto model = ModelFiles::open(small); };
    const auto second = [&] { const auto model = ModelFiles::open(large); };
    of_small = cost_of(first);
    of_large = cost_of(second);
  };
  open_both();
  open_both();
  // The header's pages, which the system maps some of at once, and the kernel's tables of them.
  EXPECT_LE(of_large.faults, of_small.faults + 2);
  EXPECT_LE(of_large.faults, 8);
  EXPECT_LE(of_large.pages, 32);
}

TEST(FileCosts, AnOpenModelHoldsNoData) {
  const TemporaryFolder folder;
  const auto path = sparse_model(folder / "model.safetensors", 1 << 20);
  std::optional<ModelFiles> model;
  const Cost cost = cost_of([&] { model = ModelFiles::open(path); });
  EXPECT_LT(cost.pages, 64);
  std::uint64_t sum = 0;
  const auto read = [&](const std::string& name) {
    for (const std::byte byte : model->bytes(name)) sum += static_cast<std::uint64_t>(byte);
  };
  const Cost of_reading = cost_of([&] { read("layers.100.weight"); });
  EXPECT_GE(of_reading.pages, 200);  // of 256
  const Cost of_letting_go = cost_of([&] { model->let_go("layers.100.weight"); });
  EXPECT_LE(of_letting_go.pages, -200);
  read("layers.100.weight");  // still there
  EXPECT_EQ(sum, 0u);
}

TEST(FileCosts, BytesAreTheSameAfterLettingGo) {
  const TemporaryFolder folder;
  std::string data(3 * 4096 + 17, 'x');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31);
  const auto path = put(folder / "file", data);
  const auto file = MappedFile::open(path);
  for (const std::size_t begin : {std::size_t{0}, std::size_t{1}, std::size_t{4096}}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, data.size() - begin}) {
      file.let_go(file.bytes().subspan(begin, size));
      EXPECT_EQ(std::memcmp(file.bytes().data(), data.data(), data.size()), 0);
    }
  }
}

// Bytes that this process has read by calls; mapped pages are not in it.
std::uint64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::uint64_t value = 0;
  file >> key >> value;
  return value;
}

TEST(FileCosts, SealingReadsNothingThatThisProcessWrote) {
  const TemporaryFolder folder;
  const std::string data(8 << 20, '\3');
  const FileReport report = write_file_atomically(folder / "model.safetensors", data);
  put(folder / "other", "of another hand");
  const std::uint64_t before = bytes_read();
  if (before == 0) GTEST_SKIP() << "this system does not count what a process reads";
  seal_folder(folder.path(), 7);
  EXPECT_LT(bytes_read() - before, data.size() / 2);
  const auto read = read_manifest(folder.path());
  ASSERT_TRUE(read.manifest) << read.fault;
  EXPECT_EQ(read.manifest->files[0].report, report);
  EXPECT_EQ(report, report_file(folder / "model.safetensors"));
  EXPECT_EQ(compare_with_manifest(folder.path(), *read.manifest, true), std::nullopt);
}

TEST(FileCosts, AFileThatChangedSinceIsReadAgain) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, std::string_view("0123456789"));
  EXPECT_EQ(report_of_written(path)->size, 10u);
  ::usleep(20'000);  // two ticks of the clock that change times are counted in
  std::fstream(path, std::ios::in | std::ios::out) << "x";
  EXPECT_EQ(report_of_written(path), std::nullopt);
  write_file_atomically(path, std::string_view("01234"));
  EXPECT_EQ(report_of_written(path)->size, 5u);
  EXPECT_EQ(report_of_written(folder / "none"), std::nullopt);
}

// In uneven parts, below and above the size of the buffer: one file, one checksum.
TEST(FileCosts, PartsOfAnySizeMakeTheSameFile) {
  const TemporaryFolder folder;
  std::string all(9 << 20, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * 2654435761u >> 17);
  FileSink sink(folder / "file");
  std::size_t at = 0;
  for (std::size_t size = 1; at < all.size(); size = size * 3 + 1) {
    const std::string_view part = std::string_view(all).substr(at, size > 3'000'000 ? 777 : size);
    sink.write(part);
    at += part.size();
    if (size > 3'000'000) size = 5;
  }
  const FileReport report = sink.finish();
  EXPECT_EQ(report.size, all.size());
  EXPECT_EQ(report.checksum, xxh3_64(raw(all)));
  EXPECT_TRUE(content(folder / "file") == all);
}

}  // namespace
}  // namespace kha
