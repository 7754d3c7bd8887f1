"""Rotary frequencies of a plain model in the keys of GGUF, or why they have none."""

import math
from dataclasses import dataclass, field

import gguf
import numpy as np
from user_error import UserError

from .strict_keys import KeyWriter


@dataclass(frozen=True)
class Rotary:
    theta: float
    scaling: dict = field(default_factory=dict)
    factors: np.ndarray | None = None  # divides the frequencies, [turned / 2]

    def add_keys(self, writer: KeyWriter) -> None:
        writer.add_rope_freq_base(self.theta)
        if not self.scaling:
            return
        writer.add_rope_scaling_type(self.scaling["type"])
        writer.add_rope_scaling_factor(self.scaling["factor"])
        if self.scaling["type"] != gguf.RopeScalingType.YARN:
            return
        writer.add_rope_scaling_orig_ctx_len(self.scaling["original"])
        writer.add_rope_scaling_yarn_beta_fast(self.scaling["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(self.scaling["beta_slow"])
        if "logits" in self.scaling:
            writer.add_rope_scaling_yarn_log_mul(self.scaling["logits"])
        else:
            writer.add_rope_scaling_attn_factors(self.scaling["attention"])


def parameters_of(config: dict) -> dict:
    """Both spellings; values of the newer one win."""
    old = config.get("rope_scaling") or {}
    given = {"rope_theta": config.get("rope_theta", 10000.0), **old,
             **(config.get("rope_parameters") or {})}
    given["rope_type"] = given.get("rope_type") or given.get("type") or "default"
    return given


def refuse(kind: str, expected: str) -> None:
    raise UserError("this rotary scaling is in no GGUF architecture of this model", found=kind,
                    expected=expected, next="kha export --to hf writes the model for transformers")


def yarn(given: dict, config: dict) -> dict:
    """llama.cpp multiplies by 0.1 ln(factor) + 1 itself; its key holds what is left to do."""
    factor = float(given["factor"])
    usual = 0.1 * math.log(factor) + 1.0
    odd = [name for name in ("mscale", "mscale_all_dim") if given.get(name)]
    if odd or given.get("truncate", True) is not True:
        refuse(f"yarn with {' and '.join(odd) or 'truncate false'}", "yarn without it")
    return {**stretch(given, config), "attention": float(given.get("attention_factor") or usual)
            / usual}


def latent_yarn(given: dict, config: dict) -> dict:
    """Of a DeepSeek-type model, in which llama.cpp knows one scale of the logits alone."""
    scale = given.get("mscale_all_dim")
    if not scale or given.get("mscale") != scale or given.get("attention_factor"):
        refuse(f"yarn with mscale {given.get('mscale')} and mscale_all_dim {scale}",
               "both, and equal")
    return {**stretch(given, config), "logits": 0.1 * float(scale)}


def stretch(given: dict, config: dict) -> dict:
    return {"type": gguf.RopeScalingType.YARN, "factor": float(given["factor"]),
            "original": int(given.get("original_max_position_embeddings")
                            or config["max_position_embeddings"]),
            "beta_fast": float(given.get("beta_fast") or 32.0),
            "beta_slow": float(given.get("beta_slow") or 1.0)}


def llama3_factors(given: dict, turned: int) -> np.ndarray:
    """What each frequency is divided by: 1 for short waves, `factor` for long ones."""
    frequencies = given["rope_theta"] ** -(np.arange(0, turned, 2, dtype=np.float64) / turned)
    periods = given["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    smooth = np.clip((periods - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1 - smooth) / given["factor"] + smooth)).astype(np.float32)


def rotary_of(config: dict, takes_factors: bool) -> Rotary:
    """Of the plain model's config.json."""
    given = parameters_of(config)
    kind, theta = given["rope_type"], float(given["rope_theta"])
    if kind == "default":
        return Rotary(theta)
    if kind == "linear":
        return Rotary(theta, {"type": gguf.RopeScalingType.LINEAR, "factor": float(given["factor"])})
    if kind == "yarn":
        latent = bool(config.get("kv_lora_rank"))
        return Rotary(theta, (latent_yarn if latent else yarn)(given, config))
    if kind == "llama3" and takes_factors:
        turned = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        return Rotary(theta, factors=llama3_factors(given, turned))
    refuse(f"rope_type {kind}", "default, linear, yarn; llama3 in Llama-type models")
