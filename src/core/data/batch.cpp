#include "kha/core/batch.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace kha {
namespace {

void resize(Batch& batch, std::int64_t rows, std::int64_t context) {
  batch.rows = rows;
  batch.context = context;
  const auto size = static_cast<std::size_t>(rows * context);
  batch.inputs.assign(size, 0);
  batch.targets.assign(size, 0);
  batch.counted.assign(size, 0);
  batch.documents.assign(size, -1);
  batch.segments.assign(size, 0);
  batch.positions.assign(size, 0);
}

void fill_row(const TokenShard& shard, const Window& window, BoundaryTargets boundary,
              std::int64_t row_begin, Batch& batch) {
  assert(window.targets >= 1 && window.targets <= batch.context);
  shard.copy(window.begin, window.targets, batch.inputs.data() + row_begin);
  shard.copy(window.begin + 1, window.targets, batch.targets.data() + row_begin);
  std::int64_t document = shard.document_of(window.begin + 1);
  for (std::int64_t i = 0; i < window.targets; ++i) {
    const std::int64_t position = window.begin + 1 + i;
    if (position == shard.document_end(document)) ++document;
    const bool starts_document = position == shard.document_begin(document);
    batch.documents[row_begin + i] = document;
    batch.counted[row_begin + i] = !starts_document || boundary == BoundaryTargets::counted;
  }
}

// A document that began before the row has its first token here at position 0 too: what stood
// before is not seen. Padding goes on in the last document's part.
void fill_places(const TokenShard& shard, const Window& window, std::int64_t row_begin,
                 Batch& batch) {
  std::int64_t segment = 0, place = 0, document = shard.document_of(window.begin);
  for (std::int64_t i = 0; i < batch.context; ++i, ++place) {
    if (i < window.targets && window.begin + i == shard.document_end(document)) {
      ++document;
      ++segment;
      place = 0;
    }
    batch.segments[row_begin + i] = segment;
    batch.positions[row_begin + i] = place;
  }
}

}  // namespace

void fill_batch(const TokenShard& shard, std::span<const Window> windows, std::int64_t context,
                BoundaryTargets boundary, Batch& batch) {
  resize(batch, static_cast<std::int64_t>(windows.size()), context);
  for (std::size_t row = 0; row < windows.size(); ++row) {
    const auto row_begin = static_cast<std::int64_t>(row) * context;
    fill_row(shard, windows[row], boundary, row_begin, batch);
    fill_places(shard, windows[row], row_begin, batch);
  }
  batch.counted_targets =
      std::accumulate(batch.counted.begin(), batch.counted.end(), std::int64_t{0});
}

}  // namespace kha
