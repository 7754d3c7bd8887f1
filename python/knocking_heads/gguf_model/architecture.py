"""The GGUF architecture that computes a plain model, and its keys; or why there is none."""

from dataclasses import dataclass

import gguf
import numpy as np
from user_error import UserError

from .plain_folder import PlainFolder
from .rotary import Rotary, rotary_of
from .strict_keys import KeyWriter

KINDS = {
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "glm4_moe": gguf.MODEL_ARCH.GLM4_MOE,
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "deepseek_v3": gguf.MODEL_ARCH.DEEPSEEK2,
}
KEEP = "kha export --to hf writes the model for transformers"


@dataclass(frozen=True)
class Architecture:
    kind: gguf.MODEL_ARCH
    adjacent_pairs: bool  # llama.cpp turns neighbouring channels; rows come half-split
    rotary: Rotary

    @property
    def name(self) -> str:
        return gguf.MODEL_ARCH_NAMES[self.kind]

    @property
    def rotary_factors(self) -> np.ndarray | None:
        return self.rotary.factors


def refuse(reason: str, found: str, remedy: str = KEEP) -> None:
    raise UserError("no GGUF architecture computes this model", found=found, cause=reason,
                    next=remedy)


def head_dim(config: dict) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def check_qwen3_moe(config: dict) -> None:
    if not config.get("norm_topk_prob"):
        refuse("llama.cpp divides the chosen experts' weights by their sum whatever the file says",
               "norm_topk_prob is false")
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        refuse("llama.cpp reads experts in every layer of a qwen3moe",
               f"dense layers: mlp_only_layers {config.get('mlp_only_layers')}, "
               f"decoder_sparse_step {config.get('decoder_sparse_step', 1)}")


def check_glm4_moe(config: dict) -> None:
    if not config.get("n_shared_experts"):
        refuse("llama.cpp computes glm4moe with a shared expert alone", "n_shared_experts is 0")


def architecture_of(folder: PlainFolder) -> Architecture:
    config = folder.config
    kind = KINDS.get(config.get("model_type"))
    if kind is None:
        refuse(f"GGUF is written for {', '.join(KINDS)}", f"model_type {config.get('model_type')}")
    # A qwen2 of llama.cpp has heads x width = hidden size; its llama takes the same biases.
    if (kind == gguf.MODEL_ARCH.QWEN2
            and head_dim(config) * config["num_attention_heads"] != config["hidden_size"]):
        kind = gguf.MODEL_ARCH.LLAMA
    if config.get("model_type") == "qwen3_moe":
        check_qwen3_moe(config)
    if config.get("model_type") == "glm4_moe":
        check_glm4_moe(config)
    output_biases = [name for name in folder.names() if name.endswith("self_attn.o_proj.bias")]
    if output_biases and kind != gguf.MODEL_ARCH.LLAMA:
        refuse("llama.cpp has no bias on the output projection of this architecture",
               output_biases[0])
    llama = kind == gguf.MODEL_ARCH.LLAMA
    return Architecture(kind, llama, rotary_of(config, takes_factors=llama))


def add_sizes(writer: KeyWriter, config: dict) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def add_grouped_heads(writer: KeyWriter, config: dict) -> None:
    width = head_dim(config)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(width)
    writer.add_value_length(width)
    rotary = config.get("rope_parameters") or {}
    share = rotary.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    writer.add_rope_dimension_count(int(width * share))


def add_latent_heads(writer: KeyWriter, config: dict) -> None:
    """One latent a token is cached: to llama.cpp the attention has one KV head, and decodes so."""
    latent, turned = config["kv_lora_rank"], config["qk_rope_head_dim"]
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(config.get("q_lora_rank") or 0)  # 0: straight queries, in any depth
    writer.add_kv_lora_rank(latent)
    writer.add_key_length(latent + turned)
    writer.add_value_length(latent)
    writer.add_key_length_mla(config["qk_nope_head_dim"] + turned)
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_rope_dimension_count(turned)


def add_softmax_experts(writer: KeyWriter, config: dict) -> None:
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


def add_sigmoid_experts(writer: KeyWriter, config: dict) -> None:
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_leading_dense_block_count(config.get("first_k_dense_replace", 0))
    writer.add_expert_weights_norm(bool(config.get("norm_topk_prob", True)))
    writer.add_expert_weights_scale(float(config.get("routed_scaling_factor", 1.0)))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    groups, chosen = config.get("n_group") or 1, config.get("topk_group") or 1
    if groups > 1:
        writer.add_expert_group_count(groups)
        writer.add_expert_group_used_count(chosen)


def add_no_experts(writer: KeyWriter, config: dict) -> None:
    """What llama.cpp insists on in a DeepSeek-type file whose layers are all dense."""
    writer.add_leading_dense_block_count(config["num_hidden_layers"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_expert_shared_count(0)


def add_architecture_keys(writer: KeyWriter, architecture: Architecture, config: dict) -> None:
    add_sizes(writer, config)
    latent = architecture.kind == gguf.MODEL_ARCH.DEEPSEEK2
    (add_latent_heads if latent else add_grouped_heads)(writer, config)
    if architecture.kind == gguf.MODEL_ARCH.QWEN3MOE:
        add_softmax_experts(writer, config)
    elif config.get("n_routed_experts"):
        add_sigmoid_experts(writer, config)
    elif latent:
        add_no_experts(writer, config)
    architecture.rotary.add_keys(writer)
