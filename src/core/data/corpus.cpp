#include "kha/core/corpus.h"

#include <array>
#include <bit>
#include <system_error>
#include <utility>

#include "core/data/corpus_summary.h"
#include "core/data/folder_lock.h"
#include "core/data/held_out_split.h"
#include "core/data/preparation.h"
#include "core/store/file_errors.h"
#include "kha/core/atomic_file.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Rises when the same text and options would give other shards than before.
constexpr std::uint64_t preparation_version = 2;

constexpr const char* summary_file = "summary.json";

// Everything the shards depend on, so that one folder never serves two settings.
std::string cache_key(const std::string& fingerprint, const CorpusOptions& options) {
  const std::array<std::uint64_t, 5> numbers = {
      preparation_version, token_shard_version, options.tokenizer->hash(), options.split_seed,
      std::bit_cast<std::uint64_t>(options.validation_share)};
  ChecksumStream128 key;
  key.update(std::as_bytes(std::span(fingerprint)));
  key.update(std::as_bytes(std::span(numbers)));
  const DocumentKeys& keys = options.keys;
  for (const std::string& text : {keys.text, keys.prompt, keys.answer, options.raw_type}) {
    key.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  }
  return to_hex(key.digest());
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_folder("cannot make the folder for prepared text", folder, error.value());
}

// Removes what an interrupted preparation left beside its parts. The lock is held, so nobody is
// writing here.
void clear(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = entry->path().filename();
    std::error_code ignored;  // what cannot be removed makes the writing after this fail
    if (name != FolderLock::name && name != parts_folder) fs::remove(entry->path(), ignored);
  }
}

bool has_counts(const TokenShard& shard, const SplitSummary& split) {
  return shard.documents() == split.documents && shard.tokens() == split.tokens;
}

// The shards of a folder, or nothing when they are not complete and whole.
std::optional<Corpus> open_prepared(const CorpusOptions& options, CorpusSummary summary) {
  if (!read_counts(summary.folder / summary_file, summary)) return std::nullopt;
  try {
    const std::uint64_t tokenizer = options.tokenizer->hash();
    TokenShard train = TokenShard::open(summary.folder / train_file, tokenizer);
    if (!has_counts(train, summary.train)) return std::nullopt;
    if (summary.validation_share == 0) return Corpus{std::move(train), std::nullopt, summary};
    TokenShard validation = TokenShard::open(summary.folder / validation_file, tokenizer);
    if (!has_counts(validation, summary.validation)) return std::nullopt;
    return Corpus{std::move(train), std::move(validation), summary};
  } catch (const Error&) {
    return std::nullopt;  // a damaged cache is made again from the text
  }
}

CorpusSummary summarise(const TextSource& source, const CorpusOptions& options) {
  return {.fingerprint = source.fingerprint,
          .expected_fingerprint = options.expected_fingerprint,
          .train = {},
          .validation = {},
          .skipped = source.skipped,
          .validation_share = options.validation_share,
          .split_seed = options.split_seed,
          .folder = options.cache_dir / cache_key(source.fingerprint, options),
          .reused = true};
}

void write_prepared(const TextSource& source, const CorpusOptions& options,
                    const CorpusProgress& progress) {
  CorpusSummary summary = summarise(source, options);
  clear(summary.folder);
  make_folder(summary.folder / parts_folder);
  write_shards(source, options, summary, progress);
  maybe_fail("data-unfinished");
  write_file_atomically(summary.folder / summary_file, to_json(summary));
  maybe_fail("data-finished");
}

// Of a complete folder the parts are not needed; a kill may have left them.
void remove_parts(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder / parts_folder, ignored);
}

Corpus open_or_write(const TextSource& source, const CorpusOptions& options,
                     const CorpusProgress& progress) {
  const CorpusSummary summary = summarise(source, options);
  std::error_code error;
  if (!fs::exists(summary.folder / parts_folder, error)) {
    if (auto corpus = open_prepared(options, summary)) return std::move(*corpus);
  }
  make_folder(summary.folder);
  const FolderLock lock(summary.folder);
  auto corpus = open_prepared(options, summary);
  if (!corpus) {
    write_prepared(source, options, progress);
    corpus = open_prepared(options, summary);
    if (corpus) corpus->summary.reused = false;
  }
  if (!corpus) {
    fail({.what = "the prepared text cannot be read back",
          .where = summary.folder.string(),
          .cause = "a faulty disk, or another program changes the folder",
          .next = "name a cache folder on another disk"});
  }
  remove_parts(summary.folder);
  return std::move(*corpus);
}

void check_keys(const DocumentKeys& keys) {
  if (keys.prompt.empty() == keys.answer.empty()) return;
  const bool prompt = !keys.prompt.empty();
  fail({.what = prompt ? "data.prompt_key is set, and data.answer_key is not"
                       : "data.answer_key is set, and data.prompt_key is not",
        .expected = "both, or none of them",
        .found = "`" + keys.prompt + keys.answer + "` alone",
        .next = prompt ? "name the key of the answers: --set data.answer_key=KEY"
                       : "name the key of the prompts: --set data.prompt_key=KEY"});
}

}  // namespace

Corpus prepare_corpus(const CorpusOptions& options, const CorpusProgress& progress) {
  check_share(options.validation_share);
  check_keys(options.keys);
  const TextSource source = collect_text(options.text, [&](std::uint64_t bytes) {
    if (progress) progress(CorpusStage::reading, bytes, 0);
  });
  Corpus corpus = open_or_write(source, options, progress);
  const BadLines& bad = corpus.summary.bad_lines;
  if (bad.count > options.most_bad_lines) fail_for_line(bad.first.back(), options);
  check_sizes(corpus.summary, options);
  return corpus;
}

}  // namespace kha
