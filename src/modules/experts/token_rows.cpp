#include "modules/experts/token_rows.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "kha/ops/cpu_implementation.h"
#include "ops/cpu_rows.h"

namespace kha {
namespace {

at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? type : at::kFloat; }

const CpuKernels& kernels() {
  const CpuKernels* chosen = ops::chosen_cpu_kernels();
  return chosen ? *chosen : cpu_kernels(InstructionSet::scalar);
}

// torch's own index_add_ goes row by row through its iterator, which costs more than the sum. No
// token is there twice, so threads write rows of their own.
void add_float_rows(float* sum, const int64_t* tokens, const float* rows, int64_t count,
                    int64_t width) {
  at::parallel_for(0, count, ops::thread_grain(width), [&](int64_t begin, int64_t end) {
    kernels().add_rows(rows + begin * width, tokens + begin, end - begin, width, sum);
  });
}

}  // namespace

TokenSum::TokenSum(const at::Tensor& like)
    : type_(like.scalar_type()),
      sum_(at::zeros(like.sizes(), like.options().dtype(wide(type_)).requires_grad(false))) {}

void TokenSum::add(int64_t place, const at::Tensor& tokens, const at::Tensor& rows) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(place, Rows{tokens, rows});
    if (summing_) return;  // whoever sums takes these too
    summing_ = true;
  }
  for (Rows own; take_next(own);) sum(own.first, own.second);
}

bool TokenSum::take_next(Rows& rows) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(next_);
  summing_ = found != waiting_.end();
  if (!summing_) return false;
  rows = std::move(found->second);
  waiting_.erase(found);
  ++next_;
  return true;
}

void TokenSum::sum(const at::Tensor& tokens, const at::Tensor& rows) {
  const at::Tensor wide_rows = rows.to(sum_.scalar_type()).contiguous();
  if (!sum_.is_cpu() || sum_.scalar_type() != at::kFloat) {
    sum_.index_add_(0, tokens, wide_rows);
    return;
  }
  add_float_rows(sum_.mutable_data_ptr<float>(), tokens.const_data_ptr<int64_t>(),
                 wide_rows.const_data_ptr<float>(), rows.size(0), rows.size(1));
}

}  // namespace kha
