#include "kha/core/corpus.h"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/data/folder_lock.h"
#include "core/data/held_out_split.h"
#include "core/store/file_errors.h"
#include "kha/core/atomic_file.h"
#include "kha/core/byte_tokenizer.h"
#include "kha/core/error.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Rises when the same text and options would give other shards than before.
constexpr std::uint64_t preparation_version = 1;

constexpr const char* train_file = "train.tokens";
constexpr const char* validation_file = "validation.tokens";
constexpr const char* summary_file = "summary.json";

// Everything the shards depend on, so that one folder never serves two settings.
std::string cache_key(const std::string& fingerprint, const CorpusOptions& options) {
  const std::array<std::uint64_t, 5> numbers = {
      preparation_version, token_shard_version, ByteTokenizer::hash(), options.split_seed,
      std::bit_cast<std::uint64_t>(options.validation_share)};
  ChecksumStream128 key;
  key.update(std::as_bytes(std::span(fingerprint)));
  key.update(std::as_bytes(std::span(numbers)));
  return to_hex(key.digest());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_folder("cannot make the folder for prepared text", folder, error.value());
}

// Removes what an interrupted preparation left. The lock is held, so nobody is writing here.
void clear(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // what cannot be removed makes the writing after this fail
    if (entry->path().filename() != FolderLock::name) fs::remove(entry->path(), ignored);
  }
}

bool has_lengths(const TokenShard& shard, const Split& split) {
  return shard.documents() == split.summary.documents && shard.tokens() == split.summary.tokens;
}

// The shards of a folder, or nothing when they are not complete and whole.
std::optional<Corpus> open_prepared(const HeldOutSplit& split, const CorpusSummary& summary) {
  std::error_code error;
  if (!fs::exists(summary.folder / summary_file, error)) return std::nullopt;
  try {
    const std::uint64_t tokenizer = ByteTokenizer::hash();
    TokenShard train = TokenShard::open(summary.folder / train_file, tokenizer);
    if (!has_lengths(train, split.train)) return std::nullopt;
    if (summary.validation_share == 0) return Corpus{std::move(train), std::nullopt, summary};
    TokenShard validation = TokenShard::open(summary.folder / validation_file, tokenizer);
    if (!has_lengths(validation, split.validation)) return std::nullopt;
    return Corpus{std::move(train), std::move(validation), summary};
  } catch (const Error&) {
    return std::nullopt;  // a damaged cache is made again from the text
  }
}

class ShardPreparation {
 public:
  ShardPreparation(std::uint64_t total_bytes, const CorpusProgress& progress)
      : total_bytes_(total_bytes), progress_(progress) {}

  void write(const fs::path& path, const Split& split) {
    TokenShardWriter writer(path, {.vocab_size = ByteTokenizer::vocab_size,
                                   .tokenizer_hash = ByteTokenizer::hash(),
                                   .document_lengths = split.lengths});
    for (const TextDocument* document : split.documents) write_document(writer, *document);
    writer.finish();
  }

 private:
  void write_document(TokenShardWriter& writer, const TextDocument& document) {
    ChecksumStream128 contents;
    read_in_pieces(document.file, [&](std::string_view piece) {
      contents.update(std::as_bytes(std::span(piece)));
      writer.write(ByteTokenizer::encode(piece));
      bytes_done_ += piece.size();
      if (progress_) progress_(CorpusStage::writing, bytes_done_, total_bytes_);
    });
    if (contents.digest() != document.contents) {
      fail({.what = "the text changed while it was read",
            .where = document.file.string(),
            .cause = "another program is writing to it",
            .next = "run the same command again when the file is finished"});
    }
    writer.write(std::array{ByteTokenizer::end_id});
  }

  std::uint64_t total_bytes_;
  const CorpusProgress& progress_;
  std::uint64_t bytes_done_ = 0;
};

void write_prepared(const HeldOutSplit& split, const CorpusSummary& summary,
                    const CorpusProgress& progress) {
  const auto total =
      static_cast<std::uint64_t>(split.train.summary.bytes + split.validation.summary.bytes);
  ShardPreparation preparation(total, progress);
  preparation.write(summary.folder / train_file, split.train);
  if (summary.validation_share > 0) {
    preparation.write(summary.folder / validation_file, split.validation);
  }
  write_file_atomically(summary.folder / summary_file, to_json(summary));
}

CorpusSummary summarise(const TextSource& source, const HeldOutSplit& split,
                        const CorpusOptions& options) {
  return {.fingerprint = source.fingerprint,
          .expected_fingerprint = options.expected_fingerprint,
          .train = split.train.summary,
          .validation = split.validation.summary,
          .skipped = source.skipped,
          .validation_share = options.validation_share,
          .split_seed = options.split_seed,
          .folder = options.cache_dir / cache_key(source.fingerprint, options),
          .reused = true};
}

nlohmann::ordered_json as_json(const SplitSummary& split) {
  return {{"documents", split.documents}, {"tokens", split.tokens}, {"bytes", split.bytes}};
}

nlohmann::ordered_json as_json(const SkippedFiles& skipped) {
  return {{"empty", skipped.empty},
          {"binary", skipped.binary},
          {"other_extension", skipped.other_extension},
          {"hidden", skipped.hidden},
          {"not_a_file", skipped.not_a_file},
          {"repeated", skipped.repeated}};
}

}  // namespace

std::string to_json(const CorpusSummary& summary) {
  const nlohmann::ordered_json json = {
      {"fingerprint", summary.fingerprint},        {"validation_share", summary.validation_share},
      {"split_seed", summary.split_seed},          {"train", as_json(summary.train)},
      {"validation", as_json(summary.validation)}, {"skipped", as_json(summary.skipped)}};
  return json.dump(2) + "\n";
}

Corpus prepare_corpus(const CorpusOptions& options, const CorpusProgress& progress) {
  const TextSource source = collect_text(options.text, [&](std::uint64_t bytes) {
    if (progress) progress(CorpusStage::reading, bytes, 0);
  });
  const HeldOutSplit split = split_documents(source.documents, options);
  CorpusSummary summary = summarise(source, split, options);
  if (auto corpus = open_prepared(split, summary)) return std::move(*corpus);

  make_folder(summary.folder);
  const FolderLock lock(summary.folder);
  if (auto corpus = open_prepared(split, summary)) return std::move(*corpus);
  clear(summary.folder);
  write_prepared(split, summary, progress);
  summary.reused = false;
  auto corpus = open_prepared(split, summary);
  if (!corpus) {
    fail({.what = "the prepared text cannot be read back",
          .where = summary.folder.string(),
          .cause = "a faulty disk, or another program changes the folder",
          .next = "name a cache folder on another disk"});
  }
  return std::move(*corpus);
}

}  // namespace kha
