// Files that are token ids already: kha's own shards, and raw ids of two or four bytes.
#pragma once

#include <filesystem>
#include <memory>

#include "core/data/file_reader.h"

namespace kha {

// A unit's text holds their ids as u32. Throw Error for an id outside the vocabulary, with file,
// byte, id and vocabulary.

// Also throws when the shard was made with another tokenizer, or is damaged.
std::unique_ptr<FileReader> open_shard_reader(const std::filesystem::path& path, std::uint32_t file,
                                              const Tokenizer& tokenizer);

// `raw_type`: uint16 or uint32. The tokenizer's end mark closes a document; without one the file is
// one document. Also throws when the type is empty, the file is of another kind, or its ids look
// like those of the other width.
std::unique_ptr<FileReader> open_raw_reader(const std::filesystem::path& path, std::uint32_t file,
                                            const Tokenizer& tokenizer,
                                            const std::string& raw_type);

}  // namespace kha
