"""Random tiny models of every attention system, in folders with the model file beside them."""

import json
import shutil
import tempfile
from itertools import product
from pathlib import Path

import torch
from hf_models import IDS
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, dynamic_module_utils

# transformers copies the code of models there, once and for all of a process.
MODULES = tempfile.TemporaryDirectory()
dynamic_module_utils.HF_MODULES_CACHE = MODULES.name

CODE = Path(__file__).resolve().parents[2] / "python" / "knocking_heads" / "hf_model"
AUTO_MAP = {"AutoConfig": "configuration_kha.KhaConfig", "AutoModel": "modeling_kha.KhaModel",
            "AutoModelForCausalLM": "modeling_kha.KhaForCausalLM"}
KINDS = ("none", "linear", "mlp", "gate")
# head_dim x heads is not the width; tied, no biases.
SIZES = dict(vocab_size=257, hidden_size=40, intermediate_size=56, num_attention_heads=6,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-6,
             rope_theta=5000.0, tie_word_embeddings=True, attention_bias=False, eos_token_id=256,
             bos_token_id=256, initializer_range=0.1)
PARTS = {
    "gqa": {},
    "talking": {},
    "gta": {"rope_head_dim": 4},
    "gta_value": {"rope_head_dim": 6},
    "gta_apart": {"rope_head_dim": 2},
    "mla": {"rope_head_dim": 6, "kv_latent": 20, "latent_heads": 1, "query_latent": 28},
    "gla": {"rope_head_dim": 4, "kv_latent": 14, "latent_heads": 3, "value_head_dim": 14},
    "collaborative": {"shared_key_width": 20, "content_bias": True},
}
LEGAL = {
    "gqa": (KINDS, KINDS, KINDS), "talking": (KINDS, KINDS, KINDS),
    "gta": (KINDS, KINDS[:1], KINDS), "gta_value": (KINDS[:2], KINDS[:1], KINDS[:2]),
    "gta_apart": (KINDS[:2],) * 3, "mla": (KINDS[:2],) * 3, "gla": (KINDS[:2],) * 3,
    "collaborative": (KINDS[:1], KINDS[:1], KINDS),
}
SIGMOID = dict(n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2, n_group=1,
               topk_group=1, moe_intermediate_size=12, norm_topk_prob=True,
               first_k_dense_replace=1, routed_scaling_factor=1.5, use_qk_norm=True,
               partial_rotary_factor=1.0)
SOFTMAX = dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=12,
               norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[0, 1])


def layers_of(system):
    """Kinds of maps by layer: all legal combinations, of 64 a square in which every pair occurs."""
    q, k, v = LEGAL[system]
    if len(q) * len(k) * len(v) <= 16:
        return list(product(q, k, v))
    return [(KINDS[i], KINDS[j], KINDS[(i + j) % 4]) for i in range(4) for j in range(4)]


def description(system, experts=False):
    """config.json: dense, tied, plain projections; or experts, untied, biases, one KV head,
    interleaved rotary channels."""
    layers = layers_of(system)
    kha = {"version": 1, "base": "qwen3", "attention": system, **PARTS[system]}
    kha["layers"] = {str(i): dict(zip("qkv", kinds)) for i, kinds in enumerate(layers)}
    config = {**SIZES, "num_hidden_layers": len(layers)}
    if system in ("mla", "gla", "collaborative"):
        config["num_key_value_heads"] = config["num_attention_heads"]
    if experts:
        sigmoid = list(PARTS).index(system) % 2 == 0
        config |= SIGMOID if sigmoid else SOFTMAX
        kha |= {"base": "glm4_moe" if sigmoid else "qwen3_moe", "rotary_layout": "interleaved"}
        config |= {"tie_word_embeddings": False, "attention_bias": True}
        if config["num_key_value_heads"] == 2:
            config["num_key_value_heads"] = 1
        if system == "mla":
            kha |= {"latent_norm_eps": 1e-3, "query_latent": 0, "value_head_dim": 10}
    return config | {"kha": kha, "model_type": "kha", "architectures": ["KhaForCausalLM"],
                     "auto_map": AUTO_MAP}


def randomise(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    state = list(model.named_parameters()) + list(model.named_buffers())
    with torch.no_grad():
        for name, tensor in state:
            value = 0.2 * torch.randn(tensor.shape, generator=generator)
            if "norm" in name:
                value += 1
            elif ("knock" in name and "gate" not in name) or "_mix" in name:
                value += torch.eye(*tensor.shape)
            tensor.copy_(value)
    return model


def write_folder(folder, config):
    """Code and config.json, then random weights by the model's own save_pretrained."""
    folder.mkdir(parents=True)
    for file in CODE.glob("*_kha.py"):
        shutil.copy(file, folder)
    (folder / "config.json").write_text(json.dumps(config))
    opened = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForCausalLM.from_config(opened, trust_remote_code=True)
    randomise(model).save_pretrained(folder)
    return folder


def their_model(folder, dtype=torch.float64, operators=False, **how):
    """The folder in transformers, every tensor read and no other; its maps composed of torch's own
    products unless `operators`."""
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, trust_remote_code=True, output_loading_info=True, **how)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[kind], (kind, loading[kind])
    if not operators:
        for module in model.modules():
            if hasattr(module, "operators"):
                module.operators = False
    return model.eval()


def logits(model, ids=IDS, **how):
    with torch.no_grad():
        return model(torch.tensor([ids]), **how).logits[0]


def engine(kha, folder, scratch, ids=IDS, continued=0):
    """What the engine makes of the folder: logits, logits_float64, continuation."""
    file = scratch / "engine.safetensors"
    result = kha("logits", folder, "--ids", ",".join(map(str, ids)), "--write", file,
                 "--continue", continued)
    assert result.returncode == 0, result.stderr
    return load_file(file)


def write_byte_tokenizer(folder):
    """Id b is byte b, 256 the end mark."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in shown]
    letters = {chr(byte): byte for byte in shown} | {chr(256 + i): b for i, b in enumerate(rest)}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>",
                            bos_token="<end>").save_pretrained(folder)
