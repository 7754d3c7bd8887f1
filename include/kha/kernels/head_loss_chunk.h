// How many rows of logits the head's loss has at once. Stands here because the plan of a run's
// memory asks for it as well as the operator.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kha {

// Rows of logits that are in memory at once: a sixth of the space of weight, hidden states and the
// gradients of both. Products of fewer than 64 rows are slow, of more than 512 no faster.
constexpr std::int64_t head_loss_chunk_rows(std::int64_t rows, std::int64_t vocabulary,
                                            std::int64_t width) {
  const std::int64_t room = (vocabulary + rows) * width / 3;
  return std::clamp<std::int64_t>(room / vocabulary / 16 * 16, 64, 512);
}

}  // namespace kha
