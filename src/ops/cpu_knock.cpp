#include "ops/cpu_knock.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ops/cpu_rows.h"

#if !defined(INTRA_OP_PARALLEL)
#error "at::parallel_for would run on one thread: compile src/ops with -fopenmp"
#endif

namespace kha::ops {
namespace {

using at::Tensor;

// Every vector of the workspace begins at a cache line.
int64_t in_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

Tensor scratch(int64_t floats, const Tensor& like) {
  return at::empty({std::max<int64_t>(floats, 1)}, like.options());
}

// The matrices packed for one direction, in one stretch of memory.
class Packed {
 public:
  Packed(const CpuKernels& kernels, int64_t dim, const Tensor& like)
      : kernels_(kernels), dim_(dim), size_(in_lines(kernels.packed_size(dim))), like_(like) {}

  void reserve(int64_t matrices) { memory_ = scratch(matrices * size_, like_); }
  const float* add(const Tensor& matrix, PackedFor use) {
    float* to = memory_.mutable_data_ptr<float>() + size_ * used_++;
    kernels_.pack(matrix.contiguous().const_data_ptr<float>(), dim_, use, to);
    return to;
  }

 private:
  const CpuKernels& kernels_;
  int64_t dim_, size_, used_ = 0;
  const Tensor& like_;
  Tensor memory_;
};

constexpr auto forward_use = PackedFor::transposed_product;
constexpr auto backward_use = PackedFor::product;

PackedMap pack_forward(MapKind kind, at::TensorList m, Packed& packed) {
  packed.reserve(static_cast<int64_t>(m.size()));
  if (kind == MapKind::linear) return {.up = packed.add(m[0], forward_use)};
  if (kind == MapKind::gate) return {.gate = packed.add(m[0], forward_use)};
  return {.up = packed.add(m[0], forward_use),
          .gate = packed.add(m[1], forward_use),
          .down = packed.add(m[2], forward_use)};
}

PackedMap pack_backward(MapKind kind, at::TensorList m, Packed& packed) {
  packed.reserve(5);
  PackedMap map;
  if (kind == MapKind::linear) map.up_backward = packed.add(m[0], backward_use);
  if (kind == MapKind::gate) {
    map.gate = packed.add(m[0], forward_use);
    map.gate_backward = packed.add(m[0], backward_use);
  }
  if (kind == MapKind::mlp) {
    map = {.up = packed.add(m[0], forward_use),
           .gate = packed.add(m[1], forward_use),
           .up_backward = packed.add(m[0], backward_use),
           .gate_backward = packed.add(m[1], backward_use),
           .down_backward = packed.add(m[2], backward_use)};
  }
  return map;
}

PlainMap plain(MapKind kind, const std::vector<Tensor>& m) {
  const auto data = [&](size_t i) { return m[i].const_data_ptr<float>(); };
  if (kind == MapKind::linear) return {.up = data(0)};
  if (kind == MapKind::gate) return {.gate = data(0)};
  return {.up = data(0), .gate = data(1), .down = data(2)};
}

void knock_few(const CpuKernels& kernels, MapKind kind, const HeadView& x, at::TensorList matrices,
               const Tensor& y) {
  std::vector<Tensor> held;
  for (const Tensor& matrix : matrices) held.push_back(matrix.contiguous());
  const int64_t dim = y.size(-1), rows = y.numel() / dim;
  const Tensor workspace = scratch(kernels.few_workspace_size(dim), y);
  const auto few = kind == MapKind::linear ? kernels.few_linear
                   : kind == MapKind::gate ? kernels.few_gate
                                           : kernels.few_mlp;
  few(x, rows, dim, plain(kind, held), y.mutable_data_ptr<float>(),
      workspace.mutable_data_ptr<float>());
}

// One stretch of workspace for each thread that may run.
class Workspaces {
 public:
  Workspaces(int64_t floats, const Tensor& like)
      : size_(in_lines(floats)), memory_(scratch(size_ * at::get_num_threads(), like)) {}
  float* of_thread() const {
    return memory_.mutable_data_ptr<float>() + size_ * at::get_thread_num();
  }

 private:
  int64_t size_;
  Tensor memory_;
};

// How the sums over rows are cut: into pieces of equal length, so that two threads end together.
// Each piece costs its partial gradients' memory and one more term in their sum, so pieces are
// long; 64 of them keep as many threads busy.
struct Pieces {
  int64_t rows, count;
};

Pieces cut(int64_t rows, int64_t tile_rows) {
  constexpr int64_t least = 1024, most = 64;
  const int64_t wanted = std::min(most, (rows + least - 1) / least);
  const int64_t piece = ((rows + wanted - 1) / wanted + tile_rows - 1) / tile_rows * tile_rows;
  return {piece, (rows + piece - 1) / piece};
}

// Partial gradients [pieces, matrices, partial_size] and their sums.
class Partials {
 public:
  Partials(const CpuKernels& kernels, int64_t pieces, int64_t matrices, int64_t dim,
           const Tensor& like)
      : kernels_(kernels),
        dim_(dim),
        size_(in_lines(kernels.partial_size(dim))),
        stride_(size_ * matrices),
        pieces_(pieces),
        memory_(scratch(stride_ * pieces, like)) {}

  PartialGradients of(MapKind kind, int64_t piece) const {
    float* first = memory_.mutable_data_ptr<float>() + piece * stride_;
    if (kind == MapKind::linear) return {.up = first};
    if (kind == MapKind::gate) return {.gate = first};
    return {.up = first, .gate = first + size_, .down = first + 2 * size_};
  }

  void sum(int64_t matrix, PartialOrder order, const Tensor& gradient) const {
    const float* partials = memory_.const_data_ptr<float>() + matrix * size_;
    float* to = gradient.mutable_data_ptr<float>();
    // Whole tiles of rows, so that no two threads make the same vectors.
    const int64_t unit = 4 * kernels_.lanes;
    at::parallel_for(0, (dim_ + unit - 1) / unit, 1, [&](int64_t begin, int64_t end) {
      const RowRange rows{begin * unit, std::min(end * unit, dim_) - begin * unit};
      kernels_.sum_partials(partials, pieces_, stride_, dim_, order, rows, to);
    });
  }

 private:
  const CpuKernels& kernels_;
  int64_t dim_, size_, stride_, pieces_;
  Tensor memory_;
};

PartialOrder order_of(MapKind kind, size_t matrix) {
  if (kind == MapKind::linear) return PartialOrder::as_stored;
  return matrix == 2 ? PartialOrder::as_stored : PartialOrder::transposed;
}

}  // namespace

Tensor knock_forward(const CpuKernels& kernels, MapKind kind, const Tensor& x,
                     at::TensorList matrices) {
  const int64_t dim = x.size(-1), rows = x.numel() / dim;
  Tensor y = at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::Contiguous)), held;
  if (rows == 0) return y;
  const HeadView input = head_rows(x, held);
  if (rows < kernels.few_rows) {
    knock_few(kernels, kind, input, matrices, y);
    return y;
  }
  Packed packed(kernels, dim, y);
  const PackedMap map = pack_forward(kind, matrices, packed);
  const Workspaces workspaces(kernels.workspace_size(dim), y);
  const auto run = kind == MapKind::linear ? kernels.knock_linear
                   : kind == MapKind::gate ? kernels.knock_gate
                                           : kernels.knock_mlp;
  const int64_t unit = kernels.tile_rows;
  at::parallel_for(0, (rows + unit - 1) / unit, 1, [&](int64_t begin, int64_t end) {
    const RowRange range{begin * unit, std::min(end * unit, rows) - begin * unit};
    run(input, range, dim, map, y.mutable_data_ptr<float>(), workspaces.of_thread());
  });
  return y;
}

std::vector<Tensor> knock_backward(const CpuKernels& kernels, MapKind kind, const Tensor& grad,
                                   const Tensor& x, at::TensorList matrices) {
  const int64_t dim = x.size(-1), rows = x.numel() / dim;
  const auto contiguous = x.options().memory_format(at::MemoryFormat::Contiguous);
  std::vector<Tensor> gradients = {at::empty(x.sizes(), contiguous)};
  for (const Tensor& matrix : matrices) {
    gradients.push_back(rows == 0 ? at::zeros_like(matrix, contiguous)
                                  : at::empty(matrix.sizes(), contiguous));
  }
  if (rows == 0) return gradients;
  Tensor x_held, grad_held;
  const HeadView x_rows = head_rows(x, x_held), grad_rows = head_rows(grad, grad_held);
  Packed packed(kernels, dim, gradients[0]);
  const PackedMap map = pack_backward(kind, matrices, packed);
  const Workspaces workspaces(kernels.workspace_size(dim), gradients[0]);
  const Pieces pieces = cut(rows, kernels.tile_rows);
  const auto count = static_cast<int64_t>(matrices.size());
  const Partials partials(kernels, pieces.count, count, dim, gradients[0]);
  const auto run = kind == MapKind::linear ? kernels.knock_linear_backward
                   : kind == MapKind::gate ? kernels.knock_gate_backward
                                           : kernels.knock_mlp_backward;
  at::parallel_for(0, pieces.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * pieces.rows;
      const RowRange range{first, std::min(pieces.rows, rows - first)};
      run(grad_rows, x_rows, range, dim, map, gradients[0].mutable_data_ptr<float>(),
          partials.of(kind, piece), workspaces.of_thread());
    }
  });
  for (size_t i = 0; i < matrices.size(); ++i) {
    partials.sum(static_cast<int64_t>(i), order_of(kind, i), gradients[i + 1]);
  }
  return gradients;
}

}  // namespace kha::ops
