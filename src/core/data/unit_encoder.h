// A unit's documents as token ids.
#pragma once

#include "core/data/work_unit.h"
#include "kha/core/corpus.h"

namespace kha {

// Several threads may call it at once.
EncodedUnit encode_unit(const Unit& unit, const TextSource& source, const CorpusOptions& options);

}  // namespace kha
