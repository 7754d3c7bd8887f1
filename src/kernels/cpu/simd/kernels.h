// The kernels of one set; table.cpp lists them, kha/kernels/cpu_kernels.h says what they do.
#pragma once

#include "kha/kernels/cpu_kernels.h"

namespace kha::cpu::KHA_SET {

double probe_multiply_add(std::int64_t rounds);
void head_loss(float* logits, std::int64_t rows, std::int64_t width, const std::int64_t* targets,
               const float* scales, float* losses);
void rms_norm(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
              float* y);
void rms_norm_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                       const float* weight, float eps, float* dx, float* dweight);
void norm_rope(HeadView x, RowRange range, std::int64_t dim, const float* weight, float eps,
               const Rotation& table, float* y);
void norm_rope_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                        const float* weight, float eps, const Rotation& table, float* dx,
                        float* dweight);
void swiglu(HeadView gate, HeadView up, RowRange range, std::int64_t width, float* y);
void swiglu_backward(HeadView grad, HeadView gate, HeadView up, RowRange range, std::int64_t width,
                     float* dgate, float* dup);
void weighted_swiglu(const WeightedGates& gates, float* y);
void weighted_swiglu_backward(const float* grad, const WeightedGates& gates,
                              const WeightedGateGradients& gradients);
void add_rows(const float* rows, const std::int64_t* places, std::int64_t count, std::int64_t width,
              float* sum);

double square_sum(const float* x, std::int64_t count);

std::int64_t attention_workspace(const AttentionGroup& group);
std::int64_t attention_backward_workspace(const AttentionGroup& group);
void causal_attention(const AttentionGroup& group, RowRange queries, GroupRows<float> y,
                      float* sums, float* workspace);
void causal_attention_backward(const AttentionGroup& group, const AttentionResults& results,
                               const AttentionPart& part, const AttentionGradients& gradients,
                               float* workspace);

std::int64_t packed_size(std::int64_t dim);
std::int64_t partial_size(std::int64_t dim);
std::int64_t workspace_size(std::int64_t dim);
void pack(const float* matrix, std::int64_t dim, PackedFor use, float* packed);
void sum_partials(const float* partials, std::int64_t pieces, std::int64_t piece_stride,
                  std::int64_t dim, PartialOrder order, RowRange rows, float* matrix);

void knock_linear(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                  float* workspace);
void knock_linear_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                           const PackedMap& map, float* dx, const PartialGradients& partial,
                           float* workspace);
void knock_gate(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
                float* workspace);
void knock_gate_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                         const PackedMap& map, float* dx, const PartialGradients& partial,
                         float* workspace);
void knock_mlp(HeadView x, RowRange range, std::int64_t dim, const PackedMap& map, float* y,
               float* workspace);
void knock_mlp_backward(HeadView grad, HeadView x, RowRange range, std::int64_t dim,
                        const PackedMap& map, float* dx, const PartialGradients& partial,
                        float* workspace);

std::int64_t few_workspace_size(std::int64_t dim);
void few_linear(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
                float* workspace);
void few_gate(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
              float* workspace);
void few_mlp(HeadView x, std::int64_t rows, std::int64_t dim, const PlainMap& map, float* y,
             float* workspace);

}  // namespace kha::cpu::KHA_SET
