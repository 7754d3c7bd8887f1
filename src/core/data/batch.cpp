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
  batch.segments.assign(size, -1);
  batch.positions.assign(size, 0);
}

// The document of a place that moves forward through the shard.
class DocumentCursor {
 public:
  DocumentCursor(const TokenShard& shard, std::int64_t position)
      : shard_(shard), document_(shard.document_of(position)) {}

  // `position` is at most one further than the last one.
  void move_to(std::int64_t position) {
    if (position == shard_.document_end(document_)) ++document_;
    place_ = position - shard_.document_begin(document_);
  }
  std::int64_t document() const { return document_; }
  std::int64_t place() const { return place_; }  // in the document

 private:
  const TokenShard& shard_;
  std::int64_t document_;
  std::int64_t place_ = 0;
};

void fill_targets(const TokenShard& shard, const Window& window, BoundaryTargets boundary,
                  std::int64_t row_begin, Batch& batch) {
  DocumentCursor cursor(shard, window.begin + 1);
  for (std::int64_t i = 0; i < window.targets; ++i) {
    cursor.move_to(window.begin + 1 + i);
    const bool wanted = cursor.place() > 0 || boundary == BoundaryTargets::counted;
    const bool given = cursor.place() < shard.prompt_tokens(cursor.document());
    batch.documents[row_begin + i] = cursor.document();
    batch.counted[row_begin + i] = wanted && !given;
  }
}

void fill_segments(const TokenShard& shard, const Window& window, std::int64_t row_begin,
                   Batch& batch) {
  DocumentCursor cursor(shard, window.begin);
  const std::int64_t first = cursor.document();
  for (std::int64_t i = 0; i < window.targets; ++i) {
    cursor.move_to(window.begin + i);
    batch.segments[row_begin + i] = cursor.document() - first;
    batch.positions[row_begin + i] = std::min(i, cursor.place());
  }
}

void fill_row(const TokenShard& shard, const Window& window, BoundaryTargets boundary,
              std::int64_t row_begin, Batch& batch) {
  assert(window.targets >= 1 && window.targets <= batch.context);
  shard.copy(window.begin, window.targets, batch.inputs.data() + row_begin);
  shard.copy(window.begin + 1, window.targets, batch.targets.data() + row_begin);
  fill_targets(shard, window, boundary, row_begin, batch);
  fill_segments(shard, window, row_begin, batch);
}

}  // namespace

void fill_batch(std::span<const TokenShard* const> shards, std::span<const Window> windows,
                std::int64_t context, BoundaryTargets boundary, Batch& batch) {
  resize(batch, static_cast<std::int64_t>(windows.size()), context);
  for (std::size_t row = 0; row < windows.size(); ++row) {
    fill_row(*shards[windows[row].source], windows[row], boundary,
             static_cast<std::int64_t>(row) * context, batch);
  }
  batch.counted_targets =
      std::accumulate(batch.counted.begin(), batch.counted.end(), std::int64_t{0});
}

void fill_batch(const TokenShard& shard, std::span<const Window> windows, std::int64_t context,
                BoundaryTargets boundary, Batch& batch) {
  const TokenShard* const shards[] = {&shard};
  fill_batch(shards, windows, context, boundary, batch);
}

}  // namespace kha
