#include "core/data/preparation.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "core/data/corpus_summary.h"
#include "core/data/ordered_workers.h"
#include "core/data/part_files.h"
#include "core/data/unit_encoder.h"
#include "core/data/unit_reader.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Text that waits for the threads or for the writer, at most; one unit may be larger.
constexpr std::size_t most_waiting = std::size_t{12} << 20;

struct Work {
  std::shared_ptr<const Unit> unit;
  EncodedUnit encoded;
};

class Preparation {
 public:
  Preparation(const TextSource& source, const CorpusOptions& options, const fs::path& folder,
              const CorpusProgress& progress)
      : source_(source),
        options_(options),
        progress_(progress),
        parts_(folder / parts_folder),
        reader_(source, options) {}

  // Reads past the parts that are there; false when one was made from other text.
  bool pass_over_parts() {
    while (const auto record = parts_.read(count(), options_.tokenizer->hash())) {
      if (!pass_over(*record)) return false;
      count_bad_lines(record->bad_lines.count, record->bad_lines.first);
      records_.push_back(*record);
    }
    parts_.keep_first(count());
    return true;
  }

  void drop_parts() const { parts_.keep_first(0); }

  // The records of all parts, when all text is in them.
  const std::vector<PartRecord>& finish() {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    OrderedWorkers<std::shared_ptr<const Unit>, Work> workers(
        options_.threads > 0 ? options_.threads : cores,
        [this](const std::shared_ptr<const Unit>& unit) {
          return Work{unit, encode_unit(*unit, source_, options_)};
        });
    bool more = true;
    while (more || workers.pending() > 0) {
      more = more && submit(workers);
      if (workers.pending() > 0 && (!more || waiting_ >= most_waiting)) write(workers.take());
    }
    end_part();
    return records_;
  }

  void merge(const fs::path& file, bool held_out) const {
    TokenShardWriter writer(file, {options_.tokenizer->vocab_size(), options_.tokenizer->hash()});
    bool open = false;
    std::int64_t prompt = 0;
    for (const PartRecord& record : records_) {
      const TokenShard part =
          TokenShard::open(parts_.shard(record.index, held_out), options_.tokenizer->hash());
      const bool joins = record.joins == (held_out ? "validation" : "train");
      for (std::int64_t i = 0; i < part.documents(); ++i) {
        if (open && !(joins && i == 0)) writer.end_document(prompt);
        if (!(joins && i == 0)) prompt = part.prompt_tokens(i);
        const std::int64_t begin = part.document_begin(i);
        writer.write_stored(part.stored(begin, part.document_end(i) - begin));
        open = true;
      }
    }
    if (open) writer.end_document(prompt);
    writer.finish();
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(records_.size()); }

  bool pass_over(const PartRecord& record) {
    ChecksumStream text;
    std::size_t size = 0;
    Unit unit;
    while (size < part_size && reader_.next(unit)) {
      text.update(std::as_bytes(std::span(unit.text)));
      size += unit.text.size();
      report(unit);
    }
    return text.digest() == record.text_checksum;
  }

  template <class Workers>
  bool submit(Workers& workers) {
    auto unit = std::make_shared<Unit>();
    if (!reader_.next(*unit)) return false;
    waiting_ += unit->text.size();
    workers.submit(std::move(unit));
    return true;
  }

  void write(const Work& work) {
    waiting_ -= work.unit->text.size();
    if (!writer_) {
      const OpenDocument open = records_.empty() ? OpenDocument{} : records_.back().open;
      writer_.emplace(parts_, count(), *options_.tokenizer, open);
      in_part_ = 0;
    }
    const auto& bad = work.encoded.bad_lines;
    count_bad_lines(static_cast<std::int64_t>(bad.size()), bad);
    writer_->add(*work.unit, work.encoded);
    in_part_ += work.unit->text.size();
    report(*work.unit);
    if (in_part_ >= part_size) end_part();
  }

  // More than may be skipped: the first of those behind the limit is named, where it is known.
  void count_bad_lines(std::int64_t number, const std::vector<BadLine>& lines) {
    const std::int64_t left = options_.most_bad_lines - bad_lines_;
    bad_lines_ += number;
    if (number <= left) return;
    const auto known = static_cast<std::int64_t>(lines.size()) - 1;
    fail_for_line(lines[std::min(left, known)], options_);
  }

  void end_part() {
    if (!writer_) return;
    records_.push_back(writer_->finish());
    writer_.reset();
  }

  void report(const Unit& unit) {
    if (progress_ && unit.file_bytes > reported_) {
      progress_(CorpusStage::writing, reported_ = unit.file_bytes, source_.total_bytes);
    }
  }

  const TextSource& source_;
  const CorpusOptions& options_;
  const CorpusProgress& progress_;
  PartFolder parts_;
  UnitReader reader_;
  std::vector<PartRecord> records_;
  std::optional<PartWriter> writer_;
  std::size_t in_part_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t reported_ = 0;
  std::int64_t bad_lines_ = 0;
};

void add(SplitSummary& sum, const SplitSummary& part) {
  sum.documents += part.documents;
  sum.tokens += part.tokens;
  sum.bytes += part.bytes;
}

void count(const std::vector<PartRecord>& records, CorpusSummary& summary) {
  for (const PartRecord& record : records) {
    add(summary.train, record.train);
    add(summary.validation, record.validation);
    summary.empty_documents += record.empty_documents;
    add(summary.bad_lines, record.bad_lines);
    add(summary.text, record.text);
  }
}

}  // namespace

void write_shards(const TextSource& source, const CorpusOptions& options, CorpusSummary& summary,
                  const CorpusProgress& progress) {
  std::optional<Preparation> preparation;
  preparation.emplace(source, options, summary.folder, progress);
  if (!preparation->pass_over_parts()) {
    // The parts are of text that has changed since and changed back: start again.
    preparation->drop_parts();
    preparation.emplace(source, options, summary.folder, progress);
  }
  count(preparation->finish(), summary);
  preparation->merge(summary.folder / train_file, false);
  if (options.validation_share > 0) preparation->merge(summary.folder / validation_file, true);
}

}  // namespace kha
