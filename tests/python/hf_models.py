"""Random tiny models for the tests of what goes in and out of Hugging Face folders."""

import json

import torch
from safetensors.torch import load_file, save_file

# Awkward on purpose: head_dim x heads is not the width, no two sizes are equal.
SIZES = {
    "vocab_size": 257,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000.0,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "eos_token_id": 256,
    "torch_dtype": "float32",
}
LATENT = {"attention": "mla", "rope_head_dim": 6, "kv_latent": 20, "latent_heads": 1}
# Of the object `kha` and of the keys beside it: routers with a sigmoid and with a softmax.
SIGMOID = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
               n_shared_experts=0, first_k_dense_replace=1)
SOFTMAX = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=False,
               n_shared_experts=0, mlp_only_layers=[0])
IDS = list(b"the heads of a layer share one small map and knock on each other " * 4)[:210]


def attention_shapes(config, kha):
    """Shapes of one layer's attention below ``self_attn.``, the maps apart."""
    d, heads, width = (config[key] for key in ("hidden_size", "num_attention_heads", "head_dim"))
    if kha.get("attention", "gqa") == "gqa":
        kv = config["num_key_value_heads"] * width
        shapes = {"q_proj.weight": (heads * width, d), "k_proj.weight": (kv, d),
                  "v_proj.weight": (kv, d), "o_proj.weight": (d, heads * width)}
        if config.get("use_qk_norm", True):
            shapes |= {"q_norm.weight": (width,), "k_norm.weight": (width,)}
        if config["attention_bias"]:
            with_bias = "qkvo" if kha.get("output_bias", True) else "qkv"
            shapes |= {f"{name}_proj.bias": (shapes[f"{name}_proj.weight"][0],) for name in with_bias}
        return shapes
    turned, latent, query = kha["rope_head_dim"], kha["kv_latent"], kha.get("query_latent", 0)
    value = kha.get("value_head_dim", width)
    shapes = {"kv_a_proj_with_mqa.weight": (latent + turned, d), "kv_a_layernorm.weight": (latent,),
              "kv_b_proj.weight": (heads * (width + value), latent),
              "o_proj.weight": (d, heads * value)}
    rows = heads * (width + turned)
    if not query:
        return shapes | {"q_proj.weight": (rows, d)}
    return shapes | {"q_a_proj.weight": (query, d), "q_a_layernorm.weight": (query,),
                     "q_b_proj.weight": (rows, query)}


def feed_forward_shapes(prefix, d, width):
    return {f"{prefix}{name}_proj.weight": shape
            for name, shape in (("gate", (width, d)), ("up", (width, d)), ("down", (d, width)))}


def mixture_shapes(prefix, config):
    """Shapes of one layer's router and experts."""
    d, width = config["hidden_size"], config["moe_intermediate_size"]
    count = config.get("n_routed_experts") or config["num_experts"]
    shapes = {f"{prefix}gate.weight": (count, d)}
    if "n_routed_experts" in config:
        shapes[f"{prefix}gate.e_score_correction_bias"] = (count,)
    for expert in range(count):
        shapes |= feed_forward_shapes(f"{prefix}experts.{expert}.", d, width)
    if config["n_shared_experts"]:
        shared = config["n_shared_experts"] * width
        shapes |= feed_forward_shapes(f"{prefix}shared_experts.", d, shared)
    return shapes


def is_dense(config, layer):
    """Whether the feed-forward of the layer has no experts."""
    if "n_routed_experts" in config:
        return layer < config["first_k_dense_replace"]
    return "num_experts" not in config or layer in config["mlp_only_layers"]


def shapes_of(config, kha):
    d, f = config["hidden_size"], config["intermediate_size"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], d)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, shape in attention_shapes(config, kha).items():
            shapes[f"{prefix}self_attn.{name}"] = shape
        for slot in "qkv":
            side = kha.get("value_head_dim", config["head_dim"]) if slot == "v" else config["head_dim"]
            if kha.get(slot, "none") == "linear":
                shapes[f"{prefix}self_attn.knock_{slot}.weight"] = (side,) * 2
            if kha.get(slot, "none") == "mlp":
                for part in ("up", "gate", "down"):
                    shapes[f"{prefix}self_attn.knock_{slot}.{part}.weight"] = (side,) * 2
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{prefix}{norm}.weight"] = (d,)
        shapes |= (feed_forward_shapes(f"{prefix}mlp.", d, f) if is_dense(config, layer)
                   else mixture_shapes(f"{prefix}mlp.", config))
    return shapes


def random_tensor(name, shape, generator):
    noise = torch.randn(shape, generator=generator)
    if "e_score_correction_bias" in name:
        return 7 + 0.3 * noise  # far from the middle
    if "norm" in name:
        return 1 + 0.3 * noise
    if "knock" in name and "gate" not in name:
        return torch.eye(shape[0]) + 0.3 * noise
    return 0.3 * noise


def write_model(folder, maps=None, dtype=torch.float32, **changes):
    """A kha model folder of random tensors; `maps` is its object `kha` (none: qwen3)."""
    kha = maps or {}
    config = {**SIZES, **changes}
    if kha.get("attention", "gqa") != "gqa":
        config["num_key_value_heads"] = config["num_attention_heads"]
    config["model_type"] = "kha" if kha else "qwen3"
    if kha:
        config["kha"] = kha
    generator = torch.Generator().manual_seed(1)
    tensors = {name: random_tensor(name, shape, generator).contiguous()
               for name, shape in shapes_of(config, kha).items()}
    for name, value in tensors.items():
        tensors[name] = value if "e_score" in name else value.to(dtype)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return tensors


def our_logits(kha, folder, scratch, ids=IDS):
    """(float32, float64) logits as the engine gives them, [T, vocabulary]."""
    file = scratch / "logits.safetensors"
    result = kha("logits", folder, "--ids", ",".join(map(str, ids)), "--write", file)
    assert result.returncode == 0, result.stderr
    found = load_file(file)
    return found["logits"], found["logits_float64"]


def their_model(folder, dtype=torch.float32):
    """The folder in transformers: every tensor read, none made up."""
    from transformers import AutoModelForCausalLM

    # The grouped products of experts know no float64.
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, output_loading_info=True, experts_implementation="eager")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[kind], (kind, loading[kind])
    return model.eval()


def their_logits(folder, dtype=torch.float32, ids=IDS):
    with torch.no_grad():
        return their_model(folder, dtype)(torch.tensor([ids])).logits[0]


def distance(a, b):
    """The largest difference of log-probabilities."""
    return (a.double().log_softmax(-1) - b.double().log_softmax(-1)).abs().max().item()


def check_parity(kha, ours, theirs, scratch):
    """The folder `ours` in kha and the folder `theirs` in transformers are one model."""
    mine, exact = our_logits(kha, ours, scratch)
    found, found_exact = their_logits(theirs), their_logits(theirs, torch.float64)
    rounding = distance(mine, exact) + distance(found, found_exact)
    assert exact.log_softmax(-1).std() > 0.1  # a model that says something
    # Their norms compute in float32 whatever the model's type.
    assert distance(exact, found_exact) <= rounding + 1e-5
    assert distance(mine, found) <= 2 * rounding + 1e-5
