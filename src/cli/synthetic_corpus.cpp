#include "cli/synthetic_corpus.h"

#include <unistd.h>

#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

namespace kha::cli {
namespace {

struct TemporaryFolder {
  std::filesystem::path path;

  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kha-ids-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::filesystem::filesystem_error("cannot make a temporary folder", name,
                                              std::error_code(errno, std::generic_category()));
    }
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

void write_random_ids(const std::filesystem::path& file, int64_t vocabulary, int64_t tokens,
                      uint64_t seed) {
  const std::vector<int64_t> lengths{tokens};
  TokenShardWriter writer(file, {.vocab_size = vocabulary, .document_lengths = lengths});
  std::mt19937_64 generator(seed);
  std::vector<int64_t> ids(static_cast<size_t>(tokens));
  // The bias of the remainder is below 2^-40 for any vocabulary.
  for (int64_t& id : ids)
    id = static_cast<int64_t>(generator() % static_cast<uint64_t>(vocabulary));
  writer.write(ids);
  writer.finish();
}

}  // namespace

std::shared_ptr<const Corpus> synthetic_corpus(int64_t vocabulary, int64_t tokens, uint64_t seed) {
  const TemporaryFolder folder;
  const auto file = folder.path / "train.tokens";
  write_random_ids(file, vocabulary, tokens, seed);
  return std::make_shared<const Corpus>(Corpus{TokenShard::open(file, 0), std::nullopt, {}});
}

}  // namespace kha::cli
