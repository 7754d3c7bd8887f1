// The rows of a Parquet file as lines of JSON, from the companion program that can read it.
#pragma once

#include <filesystem>
#include <memory>

#include "core/data/byte_stream.h"
#include "kha/core/corpus.h"

namespace kha {

// Throws Error when there is no such program, and when it fails (with its own words).
std::unique_ptr<ByteStream> open_rows(const std::filesystem::path& file,
                                      const CorpusOptions& options);

}  // namespace kha
