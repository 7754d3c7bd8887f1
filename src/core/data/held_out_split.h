// Which documents train and which are held out, and whether both sides are large enough.
#pragma once

#include <cstdint>
#include <vector>

#include "kha/core/corpus.h"

namespace kha {

struct Split {
  std::vector<const TextDocument*> documents;
  std::vector<std::int64_t> lengths;  // tokens of each
  SplitSummary summary;
};

struct HeldOutSplit {
  Split train;
  Split validation;
};

// The documents must outlive the result. Throws Error when the share is outside [0, 1), or a side,
// or everything, is under one window of context + 1 tokens.
HeldOutSplit split_documents(const std::vector<TextDocument>& documents,
                             const CorpusOptions& options);

}  // namespace kha
