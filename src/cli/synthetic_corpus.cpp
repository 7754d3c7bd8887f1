#include "cli/synthetic_corpus.h"

#include <random>
#include <span>
#include <vector>

#include "kha/core/temporary_folder.h"

namespace kha::cli {
namespace {

void write_random_ids(const std::filesystem::path& file, int64_t vocabulary, int64_t tokens,
                      uint64_t seed) {
  TokenShardWriter writer(file, {.vocab_size = vocabulary});
  std::mt19937_64 generator(seed);
  std::vector<int64_t> ids(static_cast<size_t>(tokens));
  // The bias of the remainder is below 2^-40 for any vocabulary.
  for (int64_t& id : ids)
    id = static_cast<int64_t>(generator() % static_cast<uint64_t>(vocabulary));
  writer.write(std::span<const int64_t>(ids));
  writer.end_document();
  writer.finish();
}

}  // namespace

std::shared_ptr<const RunCorpus> synthetic_corpus(int64_t vocabulary, int64_t tokens,
                                                  uint64_t seed) {
  const TemporaryFolder folder("ids");
  const auto file = folder.path() / "train.tokens";
  write_random_ids(file, vocabulary, tokens, seed);
  RunCorpus corpus{.sources = {}, .names = {""}, .weights = {1}};
  corpus.sources.push_back({TokenShard::open(file, 0), std::nullopt, {}});
  return std::make_shared<const RunCorpus>(std::move(corpus));
}

}  // namespace kha::cli
