// The documents of a source from the first to the last, as units of about a mebibyte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/data/file_reader.h"
#include "core/data/work_unit.h"
#include "kha/core/corpus.h"

namespace kha {

class UnitReader {
 public:
  // Both must outlive the reader.
  UnitReader(const TextSource& source, const CorpusOptions& options);

  // The next unit, nothing behind the last. Throws Error when a file cannot be read, or is another
  // one than when its fingerprint was taken.
  bool next(Unit& unit);

 private:
  void open_next_file();
  void check_unchanged() const;

  const TextSource& source_;
  const CorpusOptions& options_;
  std::size_t files_ = 0;  // opened so far
  std::uint64_t bytes_before_ = 0;
  std::unique_ptr<FileReader> reader_;
};

}  // namespace kha
