// The float32 kernels of one instruction set, as a table of functions.
//
// Manners of all of them: nothing is allocated, thrown or checked, no thread is started; the caller
// brings workspace and cuts work into pieces. Outputs are overwritten and overlap nothing. NaN and
// infinity propagate. For equal input and pieces the bits are equal, whatever runs beside.
#pragma once

#include <cstdint>

#include "kha/kernels/instruction_set.h"
#include "kha/kernels/rows.h"

namespace kha {

// Which product a packed matrix M [D, D] serves: of rows x, y = x M^T or y = x M.
enum class PackedFor { transposed_product, product };

// A stretch of the rows of one call: x's rows first .. first + count - 1.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Matrices of a map as CpuKernels::pack makes them; which are there is said at each kernel.
struct PackedMap {
  const float* up = nullptr;             // U, or the linear map's M, for x M^T
  const float* gate = nullptr;           // G, for x G^T
  const float* down = nullptr;           // W, for h W^T
  const float* up_backward = nullptr;    // U or M, for dx += du U
  const float* gate_backward = nullptr;  // G, for dx += dg G
  const float* down_backward = nullptr;  // W, for dh = dy W
};

// The same matrices as they are stored, [D, D].
struct PlainMap {
  const float* up = nullptr;  // U, or the linear map's M
  const float* gate = nullptr;
  const float* down = nullptr;
};

// Gradients of a piece's matrices, in the kernels' own order; CpuKernels::sum_partials reads them.
struct PartialGradients {
  float* up = nullptr;  // dU, or the linear map's dM
  float* gate = nullptr;
  float* down = nullptr;
};

// How a partial gradient lies against the matrix.
enum class PartialOrder { as_stored, transposed };

// Cosines and sines by position, [positions, D] each: row r of a call is head r % heads at position
// r / heads % positions.
struct Rotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t positions = 1;
  std::int64_t heads = 1;
};

// Products of an expert's gate and up for its rows, [rows, width] each, and the router's weight of
// each row.
struct WeightedGates {
  const float* gate = nullptr;
  const float* up = nullptr;
  const float* weights = nullptr;
  std::int64_t rows = 0, width = 0;
};

// What the backward pass of one makes: y again, [rows, width], and the gradients of gate, up and
// weights.
struct WeightedGateGradients {
  float* y = nullptr;
  float* gate = nullptr;
  float* up = nullptr;
  float* weights = nullptr;
};

// Rows of each of the heads that read one key head: row t of head h at data + h * head_stride + t *
// stride, in values.
template <class T>
struct GroupRows {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t head_stride = 0;

  T* row(std::int64_t head, std::int64_t t) const { return data + head * head_stride + t * stride; }
};

// The query heads that read one key head, as attention takes them. Query t of T stands at position
// t + (S - T) of S, 1 <= T <= S, and sees the keys up to its own position.
struct AttentionGroup {
  GroupRows<const float> queries;  // [heads, T, D]
  Rows<const float> keys;          // [S, D]
  Rows<const float> values;        // [S, D_v]
  std::int64_t heads = 1;
  std::int64_t length = 1;  // T
  float scale = 1.0f;
};

// What the forward pass made, and the gradient of its results: [heads, T, D_v]; sums: [heads, T].
struct AttentionResults {
  GroupRows<const float> grad, y;
  const float* sums = nullptr;
};

struct AttentionGradients {
  GroupRows<float> queries;  // [heads, T, D]
  Rows<float> keys;          // [S, D], of the group's heads together
  Rows<float> values;        // [S, D_v], so too
};

// What one call of the backward pass makes: the gradients of a range of keys and values from all
// queries, those of a range of queries from all keys, or with both whole everything at once, which
// forms the scores once and not twice. Ranges begin at multiples of CpuKernels::attention_rows. The
// bits are the same whichever way all is made.
struct AttentionPart {
  RowRange keys, queries;
  bool key_gradients = true, query_gradients = true;
};

struct CpuKernels {
  InstructionSet set;
  std::int64_t lanes;  // float32 values a vector

  // The processor's speed with operands in registers: `rounds` times 192 multiply-adds a lane
  // through independent accumulators. Returns the operations made, 2 a multiply-add.
  double (*probe_multiply_add)(std::int64_t rounds);

  // Sizes in floats, for maps of D x D: a packed matrix, a partial gradient, and the workspace that
  // one running piece of a knock kernel needs. Pointers want 64-byte alignment.
  std::int64_t (*packed_size)(std::int64_t dim);
  std::int64_t (*partial_size)(std::int64_t dim);
  std::int64_t (*workspace_size)(std::int64_t dim);
  // Rows that a piece should hold a multiple of, so that no tile is cut short.
  std::int64_t tile_rows;

  void (*pack)(const float* matrix, std::int64_t dim, PackedFor use, float* packed);

  // linear: y = x M^T. y [rows, D] adjacent; only the range's rows are written. Packed: up.
  void (*knock_linear)(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                       float* workspace);
  // dx = dy M and the piece's dM = dy^T x (`up`, as stored). Packed: up_backward.
  void (*knock_linear_backward)(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                                const PackedMap& map, float* dx, const PartialGradients& partial,
                                float* workspace);
  // gate: y = 2 x * sigmoid(x G^T). Packed: gate.
  void (*knock_gate)(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                     float* workspace);
  // dx, and the piece's dG (`gate`, transposed). Packed: gate, gate_backward.
  void (*knock_gate_backward)(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                              const PackedMap& map, float* dx, const PartialGradients& partial,
                              float* workspace);
  // mlp: y = 2 (x U^T * sigmoid(x G^T)) W^T. Packed: up, gate, down.
  void (*knock_mlp)(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                    float* workspace);
  // dx, and the piece's dU, dG (transposed) and dW (as stored); the inner values are computed again
  // from x. Packed: all but down.
  void (*knock_mlp_backward)(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                             const PackedMap& map, float* dx, const PartialGradients& partial,
                             float* workspace);
  // matrix [D, D] = the sum of `pieces` partials, one every `piece_stride` floats, in their order,
  // for the matrix rows first .. first + count - 1.
  void (*sum_partials)(const float* partials, std::int64_t pieces, std::int64_t piece_stride,
                       std::int64_t dim, PartialOrder order, RowRange rows, float* matrix);

  // The same maps of few rows (decoding), from matrices as they are stored: packing would cost more
  // than the product. Same values up to rounding. `workspace` holds few_workspace_size floats.
  std::int64_t few_rows;  // from this many rows on packing pays; the calls below take fewer
  std::int64_t (*few_workspace_size)(std::int64_t dim);
  void (*few_linear)(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                     float* workspace);
  void (*few_gate)(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                   float* workspace);
  void (*few_mlp)(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                  float* workspace);

  // Cross-entropy over rows of `width` adjacent logits z, in place (kha/ops/head_loss.h):
  // losses[n] = log(sum_v e^z_nv) - z_n,t with t = targets[n], 0 where t < 0. With `scales` the
  // logits become scales[n] * (softmax(z_n) - onehot(t)), zeros where t < 0; without (null) they
  // are used up. targets, scales, losses: [rows]; targets below width.
  void (*head_loss)(float* logits, std::int64_t rows, std::int64_t width,
                    const std::int64_t* targets, const float* scales, float* losses);

  // Equations in kha/ops/layers.h. y, dx, dgate and dup are [rows, D] with adjacent rows, of which
  // those of the range are written; dweight [D] is the range's part of the weight's gradient.
  void (*rms_norm)(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
                   float* y);
  void (*rms_norm_backward)(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                            const float* weight, float eps, float* dx, float* dweight);
  void (*norm_rope)(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
                    const Rotation& table, float* y);
  void (*norm_rope_backward)(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                             const float* weight, float eps, const Rotation& table, float* dx,
                             float* dweight);
  void (*swiglu)(HeadView gate, HeadView up, RowRange range, std::int64_t width, float* y);
  void (*swiglu_backward)(HeadView grad, HeadView gate, HeadView up, RowRange range,
                          std::int64_t width, float* dgate, float* dup);

  // y_r = weights_r silu(gate_r) * up_r, [rows, width] of adjacent rows; grad is that of y.
  void (*weighted_swiglu)(const WeightedGates& gates, float* y);
  void (*weighted_swiglu_backward)(const float* grad, const WeightedGates& gates,
                                   const WeightedGateGradients& gradients);
  // sum[places[i]] += rows[i] for `count` adjacent rows of `width` values, in their order.
  void (*add_rows)(const float* rows, const std::int64_t* places, std::int64_t count,
                   std::int64_t width, float* sum);

  // sum_i x_i^2 of `count` adjacent values, added up in double from stretches in float32.
  double (*square_sum)(const float* x, std::int64_t count);

  // Causal attention (kha/kernels/reference_attention.h) of one group. Queries, and keys, that are
  // worked on together, and the floats of workspace that one running call needs:
  std::int64_t attention_rows;
  std::int64_t (*attention_workspace)(const AttentionGroup& group);
  std::int64_t (*attention_backward_workspace)(const AttentionGroup& group);
  // y_t = sum_s p_ts v_s, p_ts = e^(scale q_t . k_s) / sum over the s that t sees, for the queries
  // of the range of every head; sums [heads, T]: the logarithms of those sums. A key or value that
  // is not finite may reach the queries of a tile before it.
  void (*causal_attention)(const AttentionGroup& group, RowRange queries, GroupRows<float> y,
                           float* sums, float* workspace);
  // Gradients, overwritten; p is computed again from the sums. A query or gradient that is not
  // finite may reach the keys of a tile behind it.
  void (*causal_attention_backward)(const AttentionGroup& group, const AttentionResults& results,
                                    const AttentionPart& part, const AttentionGradients& gradients,
                                    float* workspace);
};

// The kernels of a usable set (is_usable); of another set the scalar ones.
const CpuKernels& cpu_kernels(InstructionSet set);

}  // namespace kha
