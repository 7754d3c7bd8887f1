#include "cli/text_shard.h"

#include <unistd.h>

#include <filesystem>
#include <optional>

#include "kha/core/corpus.h"

namespace kha::cli {

struct TextShard::State {
  std::filesystem::path folder;
  std::optional<Corpus> corpus;
};

TextShard::TextShard(const std::vector<std::string>& paths) : state_(std::make_unique<State>()) {
  std::string name = (std::filesystem::temp_directory_path() / "kha-text-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::filesystem::filesystem_error("cannot make a temporary folder", name,
                                            std::error_code(errno, std::generic_category()));
  state_->folder = name;
  CorpusOptions options;
  options.text.paths = paths;
  options.validation_share = 0;
  options.cache_dir = state_->folder;
  options.context = 1;
  try {
    state_->corpus = prepare_corpus(options);
  } catch (...) {
    std::filesystem::remove_all(state_->folder);
    throw;
  }
}

TextShard::~TextShard() {
  state_->corpus.reset();
  std::error_code ignored;
  std::filesystem::remove_all(state_->folder, ignored);
}

const TokenShard& TextShard::shard() const { return state_->corpus->train; }

}  // namespace kha::cli
