#include "core/data/file_reader.h"

#include "core/data/text_reader.h"

namespace kha {

std::unique_ptr<FileReader> open_file_reader(const TextSource& source, std::uint32_t index,
                                             const CorpusOptions&) {
  const TextDocument& document = source.documents[index];
  auto stream = open_stream(document.file, document.format.compression);
  return std::make_unique<TextReader>(std::move(stream), index);
}

}  // namespace kha
