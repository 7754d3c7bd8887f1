// Text prepared for training: read, split by document, tokenised, kept in a cache folder.
//
// A token shard holds each document's ids and then the tokenizer's end mark, where it has one. A
// document is held out for validation by a hash of (split seed, relative path), and of its line
// where a file holds many, so that adding files moves no other document to the other side.
//
// A document over 4 MiB is tokenised in pieces, cut where a line ends and a letter follows: exact
// for bytes and for byte-level tokenizers, whose patterns part there too. Other tokenizers may give
// a few other ids at the cuts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kha/core/text_source.h"
#include "kha/core/token_shard.h"
#include "kha/core/tokenizer.h"

namespace kha {

// Where the documents of JSON lines and Parquet rows are.
struct DocumentKeys {
  std::string text = "text";
  // Both or none. A document is then a prompt, which is given and not learned, and an answer. They
  // are tokenised apart, so that the border between them is exact.
  std::string prompt = {};
  std::string answer = {};
  bool with_prompt() const { return !prompt.empty(); }
};

struct CorpusOptions {
  TextSourceOptions text;
  std::shared_ptr<const Tokenizer> tokenizer = byte_tokenizer();
  double validation_share = 0.1;  // of the documents, in [0, 1); 0 trains without validation
  std::uint64_t split_seed = 0;
  std::filesystem::path cache_dir;   // made where it is missing
  std::string expected_fingerprint;  // of an earlier run; empty expects nothing
  std::int64_t context = 0;          // each split must fill one window of context + 1 tokens
  unsigned threads = 0;              // that tokenise; 0: one a core
  DocumentKeys keys = {};
  std::int64_t most_bad_lines = 0;  // lines that are no document and are skipped; one more stops
  std::string raw_type = {};        // of .bin files: uint16 or uint32; empty refuses them
  std::filesystem::path parquet_reader = {};  // the program kha-parquet; empty: there is none
};

struct SplitSummary {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;  // end marks included
  std::int64_t bytes = 0;   // of text
  bool operator==(const SplitSummary&) const = default;
};

// A line that is not a document: not JSON, not UTF-8, without the key, too long.
struct BadLine {
  std::string what;
  std::string where;  // file, line, byte
  std::string expected;
  std::string found;
};

struct BadLines {
  std::int64_t count = 0;
  std::vector<BadLine> first;  // at most three of them
};

// Of the documents' text; ids that came as such have none.
struct TextCounts {
  std::int64_t carriage_returns = 0;
  std::int64_t byte_order_marks = 0;  // at the beginning of a document
  std::int64_t invalid_bytes = 0;     // that are not UTF-8
};

struct CorpusSummary {
  std::string fingerprint;
  std::string expected_fingerprint;  // as in the options
  SplitSummary train;
  SplitSummary validation;
  SkippedFiles skipped;
  std::int64_t empty_documents = 0;  // blanks only, or nothing that became a token: left out
  BadLines bad_lines = {};           // skipped
  TextCounts text = {};
  double validation_share = 0;
  std::uint64_t split_seed = 0;
  std::filesystem::path folder;  // of the shards
  bool reused = false;           // the shards were there already

  // Not an error: whoever continues a run says it aloud.
  bool text_changed() const {
    return !expected_fingerprint.empty() && expected_fingerprint != fingerprint;
  }
};

struct Corpus {
  TokenShard train;
  std::optional<TokenShard> validation;  // nothing when validation_share is 0
  CorpusSummary summary;
};

enum class CorpusStage { reading, writing };

// Called now and then; `total` is 0 while it is not known.
using CorpusProgress =
    std::function<void(CorpusStage stage, std::uint64_t bytes_done, std::uint64_t total)>;

// Reads the text once for its fingerprint, then opens cache_dir/KEY, or writes it when it is not
// complete: train.tokens, validation.tokens, and summary.json last. Until then finished parts of
// about 32 MiB of text lie in its folder `parts`: an interrupted preparation goes on behind them,
// and ends with the same bytes. Neither threads nor interruptions change a byte. Of several
// processes that want the same folder, one writes and the others wait. Throws Error as
// collect_text(); when a file
// is damaged, or has ids of another tokenizer; when there are more bad lines than may be skipped;
// when the share is outside [0, 1); when the text, or one split of it, is under one
// window; when the folder cannot be written.
Corpus prepare_corpus(const CorpusOptions& options, const CorpusProgress& progress = {});

// What a person wants to know of it, a line each: sizes, what was skipped, whether the text is the
// one that was expected.
std::vector<std::string> describe(const CorpusSummary& summary);

// The summary as JSON, as written to summary.json, ending in a newline.
std::string to_json(const CorpusSummary& summary);

}  // namespace kha
