#include "ops/cpu_layers.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace kha::ops {
namespace {

using at::Tensor;

Tensor empty_like_contiguous(const Tensor& x) {
  return at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::Contiguous));
}

int64_t rows_of(const Tensor& x) { return x.numel() / x.size(-1); }

// A vector's values; `holder` keeps the copy alive that a stride of its own needs.
const float* vector_data(const Tensor& vector, Tensor& holder) {
  holder = vector.contiguous();
  return holder.const_data_ptr<float>();
}

// Calls work(range) for all rows, over threads. Each row is a result of its own.
template <class Work>
void for_rows(int64_t rows, int64_t width, const Work& work) {
  const int64_t grain = thread_grain(width);
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    work(RowRange{begin, end - begin});
  });
}

// The angles as kernels read them.
class Table {
 public:
  Table(const Angles& angles, const Tensor& x) {
    if (!angles.cos.defined()) return;
    rotation_ = {.cos = vector_data(angles.cos, cos_),
                 .sin = vector_data(angles.sin, sin_),
                 .positions = angles.cos.size(0),
                 .heads = x.size(-2)};
  }
  bool rotates() const { return rotation_.cos != nullptr; }
  const Rotation& rotation() const { return rotation_; }

 private:
  Tensor cos_, sin_;
  Rotation rotation_;
};

// Rows a piece of the weight's gradient: at least 64, and at most 64 pieces.
int64_t piece_rows(int64_t rows) { return std::max<int64_t>(64, (rows + 63) / 64); }

// [pieces, width] -> [width], in the order of the pieces.
Tensor sum_pieces(const Tensor& partials) {
  Tensor sum = at::empty({partials.size(1)}, partials.options());
  const float* from = partials.const_data_ptr<float>();
  float* to = sum.mutable_data_ptr<float>();
  std::fill_n(to, sum.numel(), 0.0f);
  for (int64_t piece = 0; piece < partials.size(0); ++piece, from += sum.numel()) {
    for (int64_t i = 0; i < sum.numel(); ++i) to[i] += from[i];
  }
  return sum;
}

}  // namespace

Tensor norm_forward(const CpuKernels& kernels, const Tensor& x, const Tensor& weight, double eps,
                    const Angles& angles) {
  Tensor y = empty_like_contiguous(x), x_held, weight_held;
  if (y.numel() == 0) return y;
  const int64_t dim = x.size(-1);
  const HeadView rows = head_rows(x, x_held);
  const float* w = vector_data(weight, weight_held);
  const Table table(angles, x);
  float* to = y.mutable_data_ptr<float>();
  for_rows(rows_of(x), dim, [&](RowRange range) {
    if (table.rotates()) {
      kernels.norm_rope(rows, range, dim, w, static_cast<float>(eps), table.rotation(), to);
    } else {
      kernels.rms_norm(rows, range, dim, w, static_cast<float>(eps), to);
    }
  });
  return y;
}

std::pair<Tensor, Tensor> norm_backward(const CpuKernels& kernels, const Tensor& grad,
                                        const Tensor& x, const Tensor& weight, double eps,
                                        const Angles& angles) {
  Tensor dx = empty_like_contiguous(x), x_held, grad_held, weight_held;
  const int64_t dim = x.size(-1), count = rows_of(x), piece = piece_rows(count);
  const int64_t pieces = (count + piece - 1) / piece;
  const Tensor partials = at::empty({pieces, dim}, dx.options());
  if (count == 0) return {dx, sum_pieces(partials)};
  const HeadView x_rows = head_rows(x, x_held), grad_rows = head_rows(grad, grad_held);
  const float* w = vector_data(weight, weight_held);
  const Table table(angles, x);
  float* to = dx.mutable_data_ptr<float>();
  float* part = partials.mutable_data_ptr<float>();
  const auto e = static_cast<float>(eps);
  at::parallel_for(0, pieces, thread_grain(piece * dim), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RowRange range{i * piece, std::min(piece, count - i * piece)};
      float* own = part + i * dim;
      if (table.rotates()) {
        kernels.norm_rope_backward(grad_rows, x_rows, range, dim, w, e, table.rotation(), to, own);
      } else {
        kernels.rms_norm_backward(grad_rows, x_rows, range, dim, w, e, to, own);
      }
    }
  });
  return {dx, sum_pieces(partials)};
}

Tensor swiglu_forward(const CpuKernels& kernels, const Tensor& gate, const Tensor& up) {
  Tensor y = empty_like_contiguous(gate), gate_held, up_held;
  if (y.numel() == 0) return y;
  const int64_t width = gate.size(-1);
  const HeadView g = head_rows(gate, gate_held), u = head_rows(up, up_held);
  float* to = y.mutable_data_ptr<float>();
  for_rows(rows_of(gate), width, [&](RowRange range) { kernels.swiglu(g, u, range, width, to); });
  return y;
}

std::pair<Tensor, Tensor> swiglu_backward(const CpuKernels& kernels, const Tensor& grad,
                                          const Tensor& gate, const Tensor& up) {
  Tensor dgate = empty_like_contiguous(gate), dup = empty_like_contiguous(up);
  if (dgate.numel() == 0) return {dgate, dup};
  Tensor grad_held, gate_held, up_held;
  const int64_t width = gate.size(-1);
  const HeadView d = head_rows(grad, grad_held), g = head_rows(gate, gate_held);
  const HeadView u = head_rows(up, up_held);
  float *to_gate = dgate.mutable_data_ptr<float>(), *to_up = dup.mutable_data_ptr<float>();
  for_rows(rows_of(gate), width,
           [&](RowRange range) { kernels.swiglu_backward(d, g, u, range, width, to_gate, to_up); });
  return {dgate, dup};
}

}  // namespace kha::ops
