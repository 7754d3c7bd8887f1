"""What a GGUF file of a plain model must hold, written out plainly, and the models to try it on."""

import json

import gguf
import numpy as np
from hf_models import LATENT as LATENT_MAPS
from hf_models import write_model
from safetensors.torch import load_file
from test_reading import GROUPED, MODELS, save

ROTARY = dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=1.0)
EXPERTS = GROUPED | dict(num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True)
FAMILIES = {name: MODELS[name] for name in (
    "llama", "llama, one KV head, tied, biases, another epsilon", "llama, stretched",
    "llama, linear", "qwen2, mha", "qwen2, yarn", "qwen3, yarn", "deepseek",
    "deepseek, query latent, tied, another epsilon")} | {
    "qwen2, wide heads": ("Qwen2", GROUPED),
    "qwen3, tied": ("Qwen3", GROUPED | dict(tie_word_embeddings=True)),
    "qwen3 moe": ("Qwen3Moe", EXPERTS | dict(num_experts=8, tie_word_embeddings=True)),
    "glm4 moe": ("Glm4Moe", EXPERTS | dict(
        n_routed_experts=8, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=0,
        use_qk_norm=True, rope_parameters=ROTARY)),
}
FAMILIES["glm4 moe, a part of each head turned"] = ("Glm4Moe", FAMILIES["glm4 moe"][1] | dict(
    rope_parameters=ROTARY | dict(partial_rotary_factor=0.6)))
LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj", "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm",
}


def make(name, folder):
    save(*FAMILIES[name], folder)


def export(kha, folder, out, *arguments):
    return kha("export", folder, out, "--to", "gguf", *arguments)


def keys_of(file):
    """Every key with its value; a second value of a key would be read under another name."""
    fields = gguf.GGUFReader(file).fields
    return {name: field.contents() if field.types != [gguf.GGUFValueType.ARRAY] else []
            for name, field in fields.items()}


def tensors_of(file):
    """name -> (type, values in float32, in the order of PyTorch)"""
    return {tensor.name: (tensor.tensor_type.name,
                          gguf.dequantize(tensor.data, tensor.tensor_type).reshape(
                              [int(size) for size in reversed(tensor.shape)]))
            for tensor in gguf.GGUFReader(file).tensors}


def source_tensors(folder):
    return {name: value.double().numpy()
            for name, value in load_file(folder / "model.safetensors").items()}


def side_by_side(rows, heads):
    """Channel i of a head beside channel i + D/2, by explicit loops."""
    width = rows.shape[0] // heads
    out = np.empty_like(rows)
    for head in range(heads):
        for i in range(width // 2):
            out[head * width + 2 * i] = rows[head * width + i]
            out[head * width + 2 * i + 1] = rows[head * width + width // 2 + i]
    return out


def expected(name, tensors, config, llama):
    """The values of one tensor of the file, in double."""
    top = {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight",
           "output_norm.weight": "model.norm.weight"}
    if name in top:
        return tensors[top[name]]
    _, layer, short = name.split(".", 2)
    part, kind = short.rsplit(".", 1)
    prefix = f"model.layers.{layer}."
    if part == "exp_probs_b":
        return tensors[prefix + "mlp.gate.e_score_correction_bias"]
    if part in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
        return np.stack([tensors[f"{prefix}mlp.experts.{e}.{part[4:-5]}_proj.weight"]
                         for e in range(8)])
    if part in ("attn_k_b", "attn_v_b"):
        heads, keys = config["num_attention_heads"], config["qk_nope_head_dim"]
        both = tensors[prefix + "self_attn.kv_b_proj.weight"]
        both = both.reshape(heads, keys + config["v_head_dim"], -1)
        if part == "attn_v_b":
            return both[:, keys:]
        return np.stack([head[:keys].T for head in both])
    found = tensors[f"{prefix}{LAYER[part]}.{kind}"]
    if part == "attn_q" and llama:
        return side_by_side(found, config["num_attention_heads"])
    if part == "attn_k" and llama:
        return side_by_side(found, config["num_key_value_heads"])
    return found


def plain_folder(kha, folder, out):
    """The plain form that is held against the file: names, rotary order and epsilon of it."""
    result = kha("export", folder, out, "--to", "hf")
    assert result.returncode == 0, result.stderr
    return json.loads((out / "config.json").read_text()), source_tensors(out)


__all__ = ["FAMILIES", "LATENT_MAPS", "expected", "export", "keys_of", "make", "plain_folder",
           "tensors_of", "write_model"]
