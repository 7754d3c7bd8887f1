#include "kernels/cpu/simd/attention_block.h"
#include "kernels/cpu/simd/kernels.h"

namespace kha::cpu::KHA_SET {

// `extern`: a constant is private to its file otherwise.
#if !defined(KHA_SET_NAME)
#define KHA_SET_NAME KHA_SET
#endif
#define KHA_QUOTED(name) #name
#define KHA_NAME_OF(set) KHA_QUOTED(set)

extern const CpuKernels kernels;
constinit const CpuKernels kernels{
    .set = *parse_instruction_set(KHA_NAME_OF(KHA_SET_NAME)),
    .lanes = lanes,
    .probe_multiply_add = probe_multiply_add,
    .packed_size = packed_size,
    .partial_size = partial_size,
    .workspace_size = workspace_size,
    .tile_rows = tile_rows,
    .pack = pack,
    .knock_linear = knock_linear,
    .knock_linear_backward = knock_linear_backward,
    .knock_gate = knock_gate,
    .knock_gate_backward = knock_gate_backward,
    .knock_mlp = knock_mlp,
    .knock_mlp_backward = knock_mlp_backward,
    .sum_partials = sum_partials,
    .few_rows = few_rows,
    .few_workspace_size = few_workspace_size,
    .few_linear = few_linear,
    .few_gate = few_gate,
    .few_mlp = few_mlp,
    .head_loss = head_loss,
    .rms_norm = rms_norm,
    .rms_norm_backward = rms_norm_backward,
    .norm_rope = norm_rope,
    .norm_rope_backward = norm_rope_backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .weighted_swiglu = weighted_swiglu,
    .weighted_swiglu_backward = weighted_swiglu_backward,
    .add_rows = add_rows,
    .square_sum = square_sum,
    .attention_rows = attention_rows,
    .attention_workspace = attention_workspace,
    .attention_backward_workspace = attention_backward_workspace,
    .causal_attention = causal_attention,
    .causal_attention_backward = causal_attention_backward,
};

}  // namespace kha::cpu::KHA_SET
