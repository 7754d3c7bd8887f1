// Token windows as rows of numbers, ready to become tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kha/core/batch_plan.h"
#include "kha/core/token_shard.h"

namespace kha {

// Whether the prediction of a document's first token, made from the end mark of the one before it,
// counts in the loss. Nothing in the text announces that token.
enum class BoundaryTargets { left_out, counted };

// All arrays are [rows, context], row-major. A row whose window is shorter than `context` ends in
// padding: inputs, targets and positions 0, counted 0, documents and segments -1.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t context = 0;
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
  std::vector<std::uint8_t> counted;    // 1 where the target counts in the loss
  std::vector<std::int64_t> documents;  // index in the shard of the target's document
  // Of the inputs: which document of the row a token belongs to, from 0, and its place in it; both
  // begin anew in every row. Document masks keep attention within a segment.
  std::vector<std::int64_t> segments;
  std::vector<std::int64_t> positions;
  std::int64_t counted_targets = 0;  // sum of `counted`
};

// Fills `batch`, reusing its memory, with one row a window. Targets within a document's prompt are
// never counted. A window lies in shards[window.source]
// and has at most `context` targets. Throws Error for an id outside the shard's vocabulary.
void fill_batch(std::span<const TokenShard* const> shards, std::span<const Window> windows,
                std::int64_t context, BoundaryTargets boundary, Batch& batch);

// The same for windows of one shard.
void fill_batch(const TokenShard& shard, std::span<const Window> windows, std::int64_t context,
                BoundaryTargets boundary, Batch& batch);

}  // namespace kha
