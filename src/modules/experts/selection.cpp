#include "modules/experts/selection.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cmath>

namespace kha {
namespace {

template <class T>
bool comes_before(T value, T other) {
  if (std::isnan(value)) return !std::isnan(other);
  return value > other;
}

// Insertion into a short sorted list: k is small, and most values end at its last place.
template <class T>
void choose(const T* values, int64_t count, int64_t k, int64_t* chosen) {
  int64_t held = 0;
  for (int64_t column = 0; column < count; ++column) {
    const bool room = held < k;
    if (!room && !comes_before(values[column], values[chosen[k - 1]])) continue;
    int64_t place = room ? held++ : k - 1;
    for (; place > 0 && comes_before(values[column], values[chosen[place - 1]]); --place) {
      chosen[place] = chosen[place - 1];
    }
    chosen[place] = column;
  }
}

}  // namespace

at::Tensor largest_columns(const at::Tensor& values, int64_t k) {
  if (!values.is_cpu()) {
    return std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/1, /*descending=*/true))
        .narrow(1, 0, k)
        .contiguous();
  }
  const at::Tensor adjacent = values.contiguous();
  at::Tensor chosen = at::empty({values.size(0), k}, values.options().dtype(at::kLong));
  auto* to = chosen.mutable_data_ptr<int64_t>();
  const int64_t count = values.size(1);
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "largest_columns", [&] {
    const auto* from = adjacent.const_data_ptr<scalar_t>();
    at::parallel_for(0, values.size(0), 256, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        choose(from + row * count, count, k, to + row * k);
    });
  });
  return chosen;
}

Assignment by_expert(const at::Tensor& chosen, int64_t experts) {
  const at::Tensor on_cpu = chosen.to(at::kCPU).contiguous();
  const auto* expert = on_cpu.const_data_ptr<int64_t>();
  const int64_t pairs = chosen.numel(), k = chosen.size(1);
  Assignment assignment;
  assignment.begin.assign(experts + 1, 0);
  for (int64_t i = 0; i < pairs; ++i) ++assignment.begin[expert[i] + 1];
  for (int64_t e = 0; e < experts; ++e) assignment.begin[e + 1] += assignment.begin[e];
  at::Tensor tokens = at::empty({pairs}, at::kLong), places = at::empty({pairs}, at::kLong);
  auto *token = tokens.mutable_data_ptr<int64_t>(), *place = places.mutable_data_ptr<int64_t>();
  std::vector<int64_t> next(assignment.begin.begin(), assignment.begin.end() - 1);
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t at = next[expert[i]]++;
    token[at] = i / k;
    place[at] = i;
  }
  assignment.tokens_M = tokens.to(chosen.device());
  assignment.places_M = places.to(chosen.device());
  return assignment;
}

}  // namespace kha
