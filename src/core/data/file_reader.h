// One data file as pieces of documents.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/work_unit.h"
#include "kha/core/checksum.h"
#include "kha/core/corpus.h"

namespace kha {

// Bytes of text after which a unit ends.
inline constexpr std::size_t unit_size = std::size_t{1} << 20;

// The longest line that is read; a longer one is a bad line.
inline constexpr std::size_t most_line = std::size_t{32} << 20;

class FileReader {
 public:
  virtual ~FileReader() = default;

  // Adds pieces until the unit is full or the file ends; false when it has ended.
  virtual bool read(Unit& unit) = 0;

  virtual std::uint64_t file_bytes() const = 0;   // taken so far
  virtual Checksum128 file_checksum() const = 0;  // of the whole file, when it has ended
};

// Reader of source.documents[index].
std::unique_ptr<FileReader> open_file_reader(const TextSource& source, std::uint32_t index,
                                             const CorpusOptions& options);

}  // namespace kha
