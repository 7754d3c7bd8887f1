#include "cli/text_shard.h"

#include <optional>
#include <utility>

#include "kha/core/corpus.h"
#include "kha/core/program_beside.h"
#include "kha/core/temporary_folder.h"

namespace kha::cli {

struct TextShard::State {
  TemporaryFolder folder{"text"};
  std::optional<Corpus> corpus;  // gone before its files
};

TextShard::TextShard(const std::vector<std::string>& paths,
                     std::shared_ptr<const Tokenizer> tokenizer)
    : state_(std::make_unique<State>()) {
  CorpusOptions options;
  options.text.paths = paths;
  options.tokenizer = std::move(tokenizer);
  options.validation_share = 0;
  options.cache_dir = state_->folder.path();
  options.context = 1;
  options.parquet_reader = program_beside("kha-parquet").value_or("");
  state_->corpus = prepare_corpus(options);
}

TextShard::~TextShard() = default;

const TokenShard& TextShard::shard() const { return state_->corpus->train; }

}  // namespace kha::cli
