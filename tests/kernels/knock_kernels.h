// The CPU kernels of a set called as an operator calls them, and the double reference beside them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kha/kernels/cpu_kernels.h"
#include "kha/kernels/reference.h"

namespace kha::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

enum class Kind { linear, gate, mlp };

inline std::size_t matrices_of(Kind kind) { return kind == Kind::mlp ? 3 : 1; }
inline const char* to_string(Kind kind) {
  return kind == Kind::linear ? "linear" : kind == Kind::gate ? "gate" : "mlp";
}

// Memory that begins at a cache line, NaN until written.
class Aligned {
 public:
  explicit Aligned(std::int64_t floats)
      : memory_(floats + 16, std::numeric_limits<float>::quiet_NaN()) {}
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }

 private:
  Floats memory_;
};

// Rows of a tensor [outer, heads, dim] inside a wider one, with NaN between.
struct StridedRows {
  std::int64_t outer, heads, dim;
  std::int64_t head_stride, outer_stride;
  Floats memory;

  StridedRows(std::int64_t outer_count, std::int64_t head_count, std::int64_t width,
              std::int64_t head_gap, std::int64_t outer_gap)
      : outer(outer_count),
        heads(head_count),
        dim(width),
        head_stride(width + head_gap),
        outer_stride(head_count * (width + head_gap) + outer_gap),
        memory(outer_count * outer_stride + 1, std::numeric_limits<float>::quiet_NaN()) {}

  std::int64_t count() const { return outer * heads; }
  float& at(std::int64_t row, std::int64_t i) {
    return memory[row / heads * outer_stride + row % heads * head_stride + i];
  }
  HeadView view() const { return {memory.data(), heads, outer_stride, head_stride}; }
  void fill(std::mt19937& engine, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    for (std::int64_t r = 0; r < count(); ++r) {
      for (std::int64_t i = 0; i < dim; ++i) at(r, i) = normal(engine);
    }
  }
  Doubles in_double() {
    Doubles values;
    for (std::int64_t r = 0; r < count(); ++r) {
      for (std::int64_t i = 0; i < dim; ++i) values.push_back(at(r, i));
    }
    return values;
  }
};

inline Floats random_matrix(std::int64_t dim, std::mt19937& engine) {
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(dim)));
  Floats matrix(dim * dim);
  for (float& value : matrix) value = normal(engine);
  return matrix;
}

// Each function gives [y] or [dx, one gradient a matrix].
using Results = std::vector<Floats>;
using Wanted = std::vector<Doubles>;

class KernelCall {
 public:
  KernelCall(const CpuKernels& kernels, Kind kind, std::int64_t dim, const Results& matrices)
      : kernels_(kernels), kind_(kind), dim_(dim), matrices_(matrices) {
    for (const Floats& matrix : matrices) {
      for (PackedFor use : {PackedFor::transposed_product, PackedFor::product}) {
        packed_.emplace_back(kernels.packed_size(dim));
        kernels.pack(matrix.data(), dim, use, packed_.back().data());
      }
    }
  }

  // In pieces of `piece` rows.
  Results forward(StridedRows& x, std::int64_t piece) {
    const auto run = kind_ == Kind::linear ? kernels_.knock_linear
                     : kind_ == Kind::gate ? kernels_.knock_gate
                                           : kernels_.knock_mlp;
    Floats y = unwritten(x.count() * dim_);
    for (std::int64_t first = 0; first < x.count(); first += piece) {
      Aligned workspace(kernels_.workspace_size(dim_));
      run(x.view(), {first, std::min(piece, x.count() - first)}, dim_, map(), y.data(),
          workspace.data());
    }
    return {y};
  }

  Results forward_few(StridedRows& x) {
    const auto run = kind_ == Kind::linear ? kernels_.few_linear
                     : kind_ == Kind::gate ? kernels_.few_gate
                                           : kernels_.few_mlp;
    Floats y = unwritten(x.count() * dim_);
    Aligned workspace(kernels_.few_workspace_size(dim_));
    run(x.view(), x.count(), dim_, plain(), y.data(), workspace.data());
    return {y};
  }

  Results backward(StridedRows& grad, StridedRows& x, std::int64_t piece) {
    const auto run = kind_ == Kind::linear ? kernels_.knock_linear_backward
                     : kind_ == Kind::gate ? kernels_.knock_gate_backward
                                           : kernels_.knock_mlp_backward;
    const std::int64_t pieces = (x.count() + piece - 1) / piece;
    const std::int64_t size = (kernels_.partial_size(dim_) + 15) / 16 * 16;
    const auto count = static_cast<std::int64_t>(matrices_.size());
    Aligned partials(size * count * pieces);
    Results results{unwritten(x.count() * dim_)};
    for (std::int64_t i = 0; i < pieces; ++i) {
      Aligned workspace(kernels_.workspace_size(dim_));
      float* own = partials.data() + i * count * size;
      run(grad.view(), x.view(), {i * piece, std::min(piece, x.count() - i * piece)}, dim_, map(),
          results[0].data(), partial(own, size), workspace.data());
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const bool stored = kind_ == Kind::linear || i == 2;
      results.push_back(unwritten(dim_ * dim_));
      kernels_.sum_partials(partials.data() + i * size, pieces, count * size, dim_,
                            stored ? PartialOrder::as_stored : PartialOrder::transposed, {0, dim_},
                            results.back().data());
    }
    return results;
  }

 private:
  static Floats unwritten(std::int64_t count) {
    return Floats(count, std::numeric_limits<float>::quiet_NaN());
  }
  PackedMap map() {
    float* const first = packed_[0].data();
    float* const first_backward = packed_[1].data();
    if (kind_ == Kind::linear) return {.up = first, .up_backward = first_backward};
    if (kind_ == Kind::gate) return {.gate = first, .gate_backward = first_backward};
    return {first,          packed_[2].data(), packed_[4].data(),
            first_backward, packed_[3].data(), packed_[5].data()};
  }
  PlainMap plain() const {
    if (kind_ == Kind::linear) return {.up = matrices_[0].data()};
    if (kind_ == Kind::gate) return {.gate = matrices_[0].data()};
    return {matrices_[0].data(), matrices_[1].data(), matrices_[2].data()};
  }
  PartialGradients partial(float* own, std::int64_t size) const {
    if (kind_ == Kind::linear) return {.up = own};
    if (kind_ == Kind::gate) return {.gate = own};
    return {own, own + size, own + 2 * size};
  }

  const CpuKernels& kernels_;
  Kind kind_;
  std::int64_t dim_;
  const Results& matrices_;
  std::vector<Aligned> packed_;
};

// The same by the scalar reference in double.
class ReferenceCall {
 public:
  ReferenceCall(Kind kind, std::int64_t dim, const Results& matrices) : kind_(kind), dim_(dim) {
    for (const Floats& matrix : matrices) matrices_.emplace_back(matrix.begin(), matrix.end());
  }

  Wanted forward(const Doubles& x) const {
    Doubles y(x.size()), workspace(dim_);
    if (kind_ == Kind::linear) {
      reference::knock_linear(rows(x), matrices_[0].data(), rows(y));
    } else if (kind_ == Kind::gate) {
      reference::knock_gate(rows(x), matrices_[0].data(), rows(y));
    } else {
      reference::knock_mlp(rows(x), weights(), rows(y), workspace.data());
    }
    return {y};
  }

  Wanted backward(const Doubles& grad, const Doubles& x) const {
    Wanted out{Doubles(x.size())};
    for (const Doubles& matrix : matrices_) out.emplace_back(matrix.size());
    Doubles workspace(3 * dim_);
    if (kind_ == Kind::linear) {
      reference::knock_linear_backward(rows(grad), rows(x), matrices_[0].data(), rows(out[0]),
                                       out[1].data());
    } else if (kind_ == Kind::gate) {
      reference::knock_gate_backward(rows(grad), rows(x), matrices_[0].data(), rows(out[0]),
                                     out[1].data());
    } else {
      reference::knock_mlp_backward(rows(grad), rows(x), weights(), rows(out[0]),
                                    {out[1].data(), out[2].data(), out[3].data()},
                                    workspace.data());
    }
    return out;
  }

 private:
  Rows<const double> rows(const Doubles& values) const {
    return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / dim_, dim_);
  }
  Rows<double> rows(Doubles& values) const {
    return adjacent_rows(values.data(), static_cast<std::int64_t>(values.size()) / dim_, dim_);
  }
  reference::MlpWeights weights() const {
    return {matrices_[0].data(), matrices_[1].data(), matrices_[2].data()};
  }

  Kind kind_;
  std::int64_t dim_;
  Wanted matrices_;
};

}  // namespace kha::test
