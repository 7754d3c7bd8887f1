#include "core/surgery/head_count.h"

#include <algorithm>
#include <cassert>

namespace kha {
namespace {

std::vector<double> pooled(const std::vector<double>& rows, int64_t heads, int64_t size,
                           int64_t pool) {
  std::vector<double> means(static_cast<size_t>(heads * size));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < size; ++i) {
      double sum = 0;
      for (int64_t old = head * pool; old < (head + 1) * pool; ++old) sum += rows[old * size + i];
      means[head * size + i] = sum / static_cast<double>(pool);
    }
  }
  return means;
}

}  // namespace

std::vector<double> change_head_count(const std::vector<double>& rows, int64_t from, int64_t to) {
  assert(from % to == 0 || to % from == 0);
  const auto size = static_cast<int64_t>(rows.size()) / from;
  if (to < from) return pooled(rows, to, size, from / to);
  std::vector<double> repeated;
  repeated.reserve(static_cast<size_t>(to * size));
  for (int64_t head = 0; head < to; ++head) {
    const auto first = rows.begin() + head / (to / from) * size;
    repeated.insert(repeated.end(), first, first + size);
  }
  return repeated;
}

}  // namespace kha
