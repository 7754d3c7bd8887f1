// The tokenizer that belongs to a model, and whether the two fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "kha/core/tokenizer.h"

namespace kha {

// Ids of the tokenizer and rows of the embedding may differ: rows behind the last id are padding,
// which is never chosen. Ids without a row are an error that lists them.
void check_vocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size,
                      const std::filesystem::path& model_folder);

// The tokenizer of a model folder whose config.json says `vocab_size`. A folder without
// tokenizer.json has the byte tokenizer if it has its 257 ids. Errors: as open_tokenizer and
// check_vocabulary; no tokenizer.json with another number of ids.
std::shared_ptr<const Tokenizer> open_model_tokenizer(const std::filesystem::path& model_folder,
                                                      std::int64_t vocab_size);

}  // namespace kha
