// Which documents are held out, and whether both sides are large enough.
#pragma once

#include <cstdint>
#include <string>

#include "kha/core/corpus.h"

namespace kha {

// Throws Error when the share is outside [0, 1).
void check_share(double share);

// By a hash of the split seed, the file's relative path and, where it is not 0, the line.
bool is_held_out(const std::string& relative_path, std::uint64_t line,
                 const CorpusOptions& options);

// Throws Error when a side, or everything, is under one window of context + 1 tokens.
void check_sizes(const CorpusSummary& summary, const CorpusOptions& options);

}  // namespace kha
