// BPE proper: the symbols of one piece, merged until no merge is left.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/merge_table.h"

namespace kha {

// Memory that is used again from piece to piece.
struct MergeScratch {
  struct Node {
    std::uint32_t id;
    std::uint32_t previous;
    std::uint32_t next;
    Merge merge;  // with the next one
  };
  std::vector<Merge> merges;
  std::vector<Node> nodes;
};

// Of all possible merges the one of the lowest rank is done first, of several equal ones the
// leftmost. Time is n log n in the length. `symbols` becomes the ids of the piece; it must be
// shorter than 2^32 - 1.
void merge_symbols(const MergeTable& table, std::vector<std::uint32_t>& symbols,
                   MergeScratch& scratch);

}  // namespace kha
