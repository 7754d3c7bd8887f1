// From a source's text to the two shards of a folder.
#pragma once

#include <cstddef>
#include <filesystem>

#include "kha/core/corpus.h"

namespace kha {

inline constexpr const char* train_file = "train.tokens";
inline constexpr const char* validation_file = "validation.tokens";
inline constexpr const char* parts_folder = "parts";

// Text after which a part ends: what a kill costs at most. Tests set a small one; it is no option,
// as it changes no byte of the result.
inline std::size_t part_size = std::size_t{32} << 20;

// Writes the shards of `summary.folder`, in parts first; what an earlier call finished is kept.
// Fills the counts of `summary`. The caller has locked the folder.
void write_shards(const TextSource& source, const CorpusOptions& options, CorpusSummary& summary,
                  const CorpusProgress& progress);

}  // namespace kha
