#include "core/data/unit_reader.h"

#include "kha/core/error.h"

namespace kha {

UnitReader::UnitReader(const TextSource& source, const CorpusOptions& options)
    : source_(source), options_(options) {}

bool UnitReader::next(Unit& unit) {
  unit.text.clear();
  unit.pieces.clear();
  while (unit.text.size() < unit_size && (reader_ || files_ < source_.documents.size())) {
    if (!reader_) open_next_file();
    if (reader_->read(unit)) continue;
    check_unchanged();
    bytes_before_ += source_.documents[files_ - 1].size;
    reader_.reset();
  }
  unit.file_bytes = bytes_before_ + (reader_ ? reader_->file_bytes() : 0);
  return !unit.pieces.empty();
}

void UnitReader::open_next_file() {
  reader_ = open_file_reader(source_, static_cast<std::uint32_t>(files_), options_);
  ++files_;
}

void UnitReader::check_unchanged() const {
  const TextDocument& document = source_.documents[files_ - 1];
  if (reader_->file_checksum() == document.contents) return;
  fail({.what = "the text changed while it was read",
        .where = document.file.string(),
        .cause = "another program is writing to it",
        .next = "run the same command again when the file is finished"});
}

}  // namespace kha
