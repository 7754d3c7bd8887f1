// Text that needs no text: random ids of any vocabulary, for measuring steps.
#pragma once

#include <cstdint>
#include <memory>

#include "kha/core/run_corpus.h"

namespace kha::cli {

// One document of `tokens` uniformly random ids below `vocabulary`, equal for equal arguments; no
// validation split. Its file is a temporary one, already unlinked. Errors: as TokenShardWriter.
std::shared_ptr<const RunCorpus> synthetic_corpus(int64_t vocabulary, int64_t tokens,
                                                  uint64_t seed);

}  // namespace kha::cli
