"""The rotary embedding of a kha model, with every kind of scaling that kha computes.

Of S positions and a width w there are w / 2 frequencies theta^(-2i / w), each times a multiplier
that the kind of scaling says.
"""

import math

import torch
from torch import nn

from .layers_kha import wide

BY_LENGTH = ("dynamic", "longrope")  # other frequencies in texts beyond the original length


def frequency_multipliers(rope, width, length=0):
    """In a text of ``length`` positions (0: at most the original length); None: all are 1."""
    kind, theta, channels = rope["rope_type"], rope["rope_theta"], range(width // 2)
    if kind == "default":
        return None
    if kind == "linear":
        return [1 / rope["factor"] for _ in channels]
    if kind == "llama3":
        return [llama3_multiplier(rope, theta ** (2 * i / width)) for i in channels]
    if kind == "yarn":
        return yarn_multipliers(rope, width)
    if kind == "longrope":
        factors = rope["long_factor" if length > original_length(rope) else "short_factor"]
        return [1 / factor for factor in factors]
    if kind == "dynamic":
        if length <= original_length(rope):
            return None
        stretch = rope["factor"] * length / original_length(rope) - (rope["factor"] - 1)
        base = stretch ** (width / (width - 2))
        return [base ** (-2 * i / width) for i in channels]
    raise ValueError(
        f"rotary scaling {kind!r} is not computed; known: default, linear, llama3, yarn, dynamic, "
        "longrope"
    )


def original_length(rope):
    return rope["original_max_position_embeddings"]


def llama3_multiplier(rope, wavelength):
    """Long wavelengths over the factor, short ones kept, a blend between."""
    original, factor = original_length(rope), rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    wavelength *= 2 * math.pi
    if wavelength < original / high:
        return 1.0
    if wavelength > original / low:
        return 1 / factor
    kept = (original / wavelength - low) / (high - low)
    return (1 - kept) / factor + kept


def yarn_multipliers(rope, width):
    """A blend by rotations over the original length (arXiv 2309.00071)."""

    def channel(rotations):
        turns = math.log(original_length(rope) / (rotations * 2 * math.pi))
        return width * turns / (2 * math.log(rope["rope_theta"]))

    first, last = channel(rope.get("beta_fast") or 32), channel(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    last += 1e-3 if first == last else 0
    shares = [min(max((i - first) / (last - first), 0.0), 1.0) for i in range(width // 2)]
    return [share / rope["factor"] + (1 - share) for share in shares]


def yarn_scale(factor, weight):
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1


def rotary_amplitude(rope):
    """What cos and sin are multiplied with."""
    if rope["rope_type"] not in ("yarn", "longrope"):
        return 1.0
    if rope.get("attention_factor"):
        return rope["attention_factor"]
    if rope["factor"] <= 1:
        return 1.0
    if rope["rope_type"] == "longrope":
        return math.sqrt(1 + math.log(rope["factor"]) / math.log(original_length(rope)))
    own, all_channels = rope.get("mscale"), rope.get("mscale_all_dim")
    if not own or not all_channels:
        return yarn_scale(rope["factor"], 1)
    return yarn_scale(rope["factor"], own) / yarn_scale(rope["factor"], all_channels)


def logit_scale(rope):
    """What latent attention multiplies its logits with besides, as DeepSeek's models do."""
    weight = rope.get("mscale_all_dim")
    if rope["rope_type"] != "yarn" or not weight:
        return 1.0
    return yarn_scale(rope["factor"], weight) ** 2


def with_lengths(rope, context):
    """The settings with what they leave to the context length written out."""
    rope = dict(rope)
    if rope["rope_type"] == "dynamic":
        rope["original_max_position_embeddings"] = context
    if rope["rope_type"] in ("llama3", "yarn", "longrope"):
        rope.setdefault("original_max_position_embeddings", context)
    if rope["rope_type"] == "longrope":
        rope.setdefault("factor", max(context / original_length(rope), 1.0))
    return rope


class KhaRotary(nn.Module):
    """cos and sin of every position and channel. It holds no buffer: a cast would round it."""

    def __init__(self, config):
        super().__init__()
        self.rope = with_lengths(config.rope_parameters, config.max_position_embeddings)
        self.width = config.rotary_width
        self.interleaved = config.interleaved
        self.multipliers = frequency_multipliers(self.rope, self.width)
        self.amplitude = rotary_amplitude(self.rope)

    def forward(self, x, position_ids, cached=0):
        """Of x its type and device; positions [B or 1, T] -> two of [B or 1, T, width]."""
        options = {"dtype": wide(x.dtype), "device": x.device}
        exponents = torch.arange(0, self.width, 2, **options) / self.width
        frequencies = 1.0 / self.rope["rope_theta"] ** exponents
        multipliers = self._multipliers(position_ids, cached)
        if multipliers is not None:
            frequencies = frequencies * torch.tensor(multipliers, **options)
        angles = position_ids[..., None].to(frequencies.dtype) * frequencies
        if self.interleaved:
            angles = angles.repeat_interleave(2, dim=-1)
        else:
            angles = torch.cat((angles, angles), dim=-1)
        return [(each * self.amplitude).to(x.dtype) for each in (angles.cos(), angles.sin())]

    def _multipliers(self, position_ids, cached):
        if self.rope["rope_type"] not in BY_LENGTH or position_ids.numel() == 0:
            return self.multipliers
        length = int(position_ids.max()) + 1
        found = frequency_multipliers(self.rope, self.width, length)
        before = frequency_multipliers(self.rope, self.width, length - position_ids.shape[-1])
        if cached and found != before:
            raise ValueError(
                f"the cache holds keys of other rotary frequencies: {self.rope['rope_type']!r} "
                f"turns texts longer than {original_length(self.rope)} positions by others, and "
                f"this one reaches {length}; pass use_cache=False"
            )
        return found


def rotate(x, position_embeddings, interleaved):
    """Turns the channels of heads [B, T, heads, D], the first ones where there are fewer angles:
    i with i + width/2, or 2i with 2i + 1."""
    cos, sin = (each.unsqueeze(2) for each in position_embeddings)
    width = cos.shape[-1]
    if width < x.shape[-1]:
        turned = rotate(x[..., :width], position_embeddings, interleaved)
        return torch.cat((turned, x[..., width:]), dim=-1)
    if interleaved:
        partners = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    else:
        first, second = x.chunk(2, dim=-1)
        partners = torch.cat((-second, first), dim=-1)
    return x * cos + partners * sin
