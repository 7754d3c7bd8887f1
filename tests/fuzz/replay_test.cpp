// The corpus that fuzzing left, read again: each file is read or refused in words, and so is each
// of its beginnings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/targets.h"

namespace kha::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_cuts = 400;  // of one file

std::vector<std::uint8_t> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> corpus_of(const Target& target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(KHA_FUZZ_CORPUS) / target.name)) {
    files.push_back(entry.path());
  }
  return files;
}

class Replay : public ::testing::TestWithParam<Target> {
 protected:
  // Where the bytes lie that were read last, for whoever finds that they end the process.
  const fs::path last_ =
      (fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
      ("kha-fuzz-last-" + GetParam().name);
};

TEST_P(Replay, EachFileIsReadOrRefused) {
  const auto files = corpus_of(GetParam());
  ASSERT_FALSE(files.empty());
  int read = 0;
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    EXPECT_NO_THROW(read += GetParam().read(bytes_of(file)));
  }
  EXPECT_GT(read, 0)
      << "no file of the corpus is a right one, so nothing behind the first check ran";
  EXPECT_LT(read, static_cast<int>(files.size())) << "no file of the corpus is a wrong one";
}

TEST_P(Replay, SoIsEachBeginning) {
  for (const auto& file : corpus_of(GetParam())) {
    SCOPED_TRACE(file.filename().string());
    const auto bytes = bytes_of(file);
    const std::size_t step = bytes.size() / most_cuts + 1;
    for (std::size_t size = 0; size < bytes.size(); size += step) {
      ASSERT_NO_THROW(GetParam().read({bytes.data(), size})) << size << " bytes of it";
    }
  }
}

// The changes that break parsers: other bits, numbers at their limits, a part left out, doubled, or
// taken from another file.
class Mutation {
 public:
  Mutation(std::vector<std::vector<std::uint8_t>> files, unsigned seed)
      : files_(std::move(files)), random_(seed) {}

  std::vector<std::uint8_t> next() {
    auto bytes = files_[below(files_.size())];
    for (std::size_t count = 1 + below(4); count > 0; --count) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void replace(std::vector<std::uint8_t>& bytes, std::size_t at, std::size_t size,
               const std::vector<std::uint8_t>& with) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(size, bytes.size() - at)));
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), with.begin(), with.end());
  }

  void change(std::vector<std::uint8_t>& bytes) {
    static const std::vector<std::string> words{"null",
                                                "-1",
                                                "0",
                                                "1e999",
                                                "18446744073709551615",
                                                "9223372036854775808",
                                                "2147483648",
                                                "[]",
                                                "{}",
                                                "\"\"",
                                                "[[[[",
                                                "\\ud800",
                                                "true",
                                                "0.5",
                                                ",",
                                                "\"",
                                                "\xff",
                                                "\n",
                                                "NaN"};
    if (bytes.empty()) return bytes.push_back(static_cast<std::uint8_t>(random_()));
    const std::size_t at = below(bytes.size()), size = below(16);
    const auto& other = files_[below(files_.size())];
    const std::size_t from = below(other.size() + 1);
    switch (below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1u << below(8));
        return;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(random_());
        return;
      case 2:
        return replace(bytes, at, below(2) * size, text(words[below(words.size())]));
      case 3:
        return replace(bytes, at, size, {});
      case 4:
        return replace(bytes, at, 0,
                       {other.begin() + static_cast<std::ptrdiff_t>(from), other.end()});
      default:
        return replace(bytes, at, 8, std::vector<std::uint8_t>(8, below(2) ? 0xff : 0x7f));
    }
  }

  static std::vector<std::uint8_t> text(const std::string& word) {
    return {word.begin(), word.end()};
  }

  std::vector<std::vector<std::uint8_t>> files_;
  std::mt19937 random_;
};

// KHA_FUZZ_ROUNDS asks for more of them, KHA_FUZZ_SEED for others.
int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

TEST_P(Replay, ChangedFilesAreReadOrRefused) {
  std::vector<std::vector<std::uint8_t>> files;
  for (const auto& file : corpus_of(GetParam())) files.push_back(bytes_of(file));
  Mutation mutation(std::move(files), static_cast<unsigned>(number_from("KHA_FUZZ_SEED", 1)));
  for (int round = number_from("KHA_FUZZ_ROUNDS", 300); round > 0; --round) {
    const auto bytes = mutation.next();
    std::ofstream(last_, std::ios::binary) << std::string(bytes.begin(), bytes.end());
    ASSERT_NO_THROW(GetParam().read(bytes)) << "the bytes are in " << last_;
  }
  fs::remove(last_);
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, ::testing::ValuesIn(targets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kha::fuzz
