#include "core/data/file_reader.h"

#include "core/data/id_reader.h"
#include "core/data/line_reader.h"
#include "core/data/row_stream.h"
#include "core/data/text_reader.h"

namespace kha {

std::unique_ptr<FileReader> open_file_reader(const TextSource& source, std::uint32_t index,
                                             const CorpusOptions& options) {
  const auto& [name, file, size, contents, format] = source.documents[index];
  switch (format.content) {
    case FileContent::shard:
      return open_shard_reader(file, index, *options.tokenizer);
    case FileContent::raw_ids:
      return open_raw_reader(file, index, *options.tokenizer, options.raw_type);
    case FileContent::parquet:
      return std::make_unique<LineReader>(open_rows(file, options), index);
    case FileContent::lines:
      return std::make_unique<LineReader>(open_stream(file, format.compression), index);
    case FileContent::text:
      break;
  }
  return std::make_unique<TextReader>(open_stream(file, format.compression), index);
}

}  // namespace kha
