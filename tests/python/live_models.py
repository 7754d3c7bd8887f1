"""Tiny random models of transformers for the tests of the package knocking_heads."""

import copy

import torch
from hf_models import IDS, SIZES

FAMILIES = ["qwen3", "qwen3_moe", "llama", "mistral", "qwen2"]
_OWN = {
    "qwen3": {},
    "qwen3_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                      norm_topk_prob=True),
    "llama": dict(attention_bias=True, tie_word_embeddings=False),
    "mistral": dict(sliding_window=None),
    "qwen2": {},
}
TOKENS = torch.tensor([IDS[:60], IDS[60:120]])  # 120 tokens: more than the width of 36


def live_model(family="qwen3", seed=0, dtype=torch.float32, **changes):
    """A model in training mode with weights large enough that every part speaks."""
    import transformers

    plain = {key: value for key, value in SIZES.items() if key not in ("torch_dtype", "rope_theta")}
    plain["hidden_size"] = 36  # a multiple of the heads, as Llama wants it
    rotary = {"rope_type": "default", "rope_theta": SIZES["rope_theta"]}
    config = transformers.AutoConfig.for_model(
        family, **{**plain, "rope_parameters": rotary, **_OWN[family], **changes})
    model = transformers.AutoModelForCausalLM.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.3 * noise if "norm" in name else 0.3 * noise)
    return model.to(dtype).train()


def stir(model, seed=1, size=0.3):
    """Moves every map away from its start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "knock_" in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.add_((size * noise).to(parameter.dtype))
    return model


def logits(model, ids=TOKENS):
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def largest(a, b):
    return (a.double() - b.double()).abs().max().item()


def in_double(model):
    """A copy in float64."""
    wide = copy.deepcopy(model).double()
    if hasattr(wide.config, "num_experts"):
        wide.set_experts_implementation("eager")  # the grouped products know no float64
    return wide
