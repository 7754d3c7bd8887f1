"""The parts of a kha model below attention: norm, rotary embedding, maps, feed-forward.

Shapes: B sequences, T positions, d the model's width; heads are [B, T, heads, D].
"""

import math

import torch
from torch import nn


def wide(dtype):
    """The type of statistics and angles: float32, or float64 of a model in float64."""
    return torch.float64 if dtype == torch.float64 else torch.float32


class KhaRMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) over the last dimension, in float32, times a gain."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        values = x.to(wide(x.dtype))
        normed = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * normed.to(x.dtype)


class KhaFeedForward(nn.Module):
    """down(silu(gate x) * up x)"""

    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class KhaMatrix(nn.Linear):
    """A matrix without bias that does not start at random: ``start`` names its first value.

    identity: ones on the diagonal; zeros; blocks: row i is one on the i-th stretch of columns;
    mixing: normal with a standard deviation of 0.2; normal: as every other matrix.
    """

    def __init__(self, inputs, outputs, start):
        self.start = start
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self):
        self.start_again(0.02)

    def start_again(self, deviation):
        # torch.nn.init alone: transformers makes it leave loaded values as they are.
        if self.start == "zeros":
            nn.init.zeros_(self.weight)
        elif self.start == "identity":
            nn.init.eye_(self.weight)
        elif self.start == "blocks":
            nn.init.eye_(self.weight)
            if not getattr(self.weight, "_is_hf_initialized", False):
                self._stretch()
        else:
            nn.init.normal_(self.weight, std=0.2 if self.start == "mixing" else deviation)

    def _stretch(self):
        rows, columns = self.weight.shape
        with torch.no_grad():
            eye = torch.eye(rows, dtype=self.weight.dtype, device=self.weight.device)
            self.weight.copy_(eye.repeat_interleave(columns // rows, dim=1))


def operators():
    """torch.ops.kha where the package knocking_heads was imported, else None."""
    return torch.ops.kha if hasattr(torch.ops.kha, "knock_mlp") else None


class KhaLinearMap(KhaMatrix):
    """y = x M^T on every head (arXiv 2510.23052, eq. 5)."""

    def __init__(self, width):
        super().__init__(width, width, "identity")
        self.operators = operators() is not None

    def forward(self, x):
        if self.operators:
            return torch.ops.kha.knock_linear(x, self.weight)
        return super().forward(x)


class KhaMlpMap(nn.Module):
    """y = 2 (x U^T * sigmoid(x G^T)) W^T on every head (eq. 6)."""

    def __init__(self, width):
        super().__init__()
        self.up = KhaMatrix(width, width, "identity")
        self.gate = KhaMatrix(width, width, "zeros")
        self.down = KhaMatrix(width, width, "identity")
        self.operators = operators() is not None

    def forward(self, x):
        if self.operators:
            return torch.ops.kha.knock_mlp(x, self.up.weight, self.gate.weight, self.down.weight)
        return self.down(2 * (self.up(x) * torch.sigmoid(self.gate(x))))


class KhaGateMap(nn.Module):
    """y = 2 x * sigmoid(x G^T) on every head."""

    def __init__(self, width):
        super().__init__()
        self.gate = KhaMatrix(width, width, "zeros")
        self.operators = operators() is not None

    def forward(self, x):
        if self.operators:
            return torch.ops.kha.knock_gate(x, self.gate.weight)
        return 2 * (x * torch.sigmoid(self.gate(x)))


MAPS = {"linear": KhaLinearMap, "mlp": KhaMlpMap, "gate": KhaGateMap}


def add_map(module, config, layer, slot, width):
    """Gives the attention ``module`` its map ``knock_q``, ``knock_k`` or ``knock_v``, if any."""
    kind = config.knock(layer, slot)
    if kind != "none":
        setattr(module, f"knock_{slot}", MAPS[kind](width))


def knocked(module, slot, x):
    found = getattr(module, f"knock_{slot}", None)
    return x if found is None else found(x)


def frequency_multipliers(rope, width):
    """What a kind of rotary scaling makes of each frequency, float64; None: nothing."""
    kind, theta, factor = rope["rope_type"], rope["rope_theta"], rope.get("factor", 1.0)
    if kind == "default":
        return None
    if kind == "linear":
        return [1 / factor] * (width // 2)
    if kind == "llama3":
        return [llama3_multiplier(rope, theta ** (2 * i / width)) for i in range(width // 2)]
    if kind == "yarn":
        first, last = yarn_channels(rope, width)
        shares = [min(max((i - first) / (last - first), 0.0), 1.0) for i in range(width // 2)]
        return [share / factor + (1 - share) for share in shares]
    raise ValueError(
        f"rotary scaling {kind!r} is not computed; known: default, linear, llama3, yarn"
    )


def llama3_multiplier(rope, turns):
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    length = 2 * math.pi * turns
    if length < original / high:
        return 1.0
    if length > original / low:
        return 1 / factor
    kept = (original / length - low) / (high - low)
    return (1 - kept) / factor + kept


def yarn_channels(rope, width):
    """Frequencies up to the first of these channels are kept, those behind the last stretched."""
    def channel(rotations):
        original = rope["original_max_position_embeddings"]
        share = math.log(original / (rotations * 2 * math.pi)) / math.log(rope["rope_theta"])
        return width * share / 2

    first, last = channel(rope.get("beta_fast") or 32), channel(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    return first, last + (1e-3 if first == last else 0)


def rotary_amplitude(rope):
    """What cos and sin are multiplied by."""
    if rope["rope_type"] != "yarn":
        return 1.0
    if rope.get("attention_factor"):
        return rope["attention_factor"]
    return 1.0 if rope["factor"] <= 1 else 0.1 * math.log(rope["factor"]) + 1


class KhaRotary(nn.Module):
    """cos and sin of every position and channel. It holds no buffer: a cast would round it."""

    def __init__(self, config):
        super().__init__()
        self.theta = config.rope_parameters["rope_theta"]
        self.width = config.rotary_width
        self.interleaved = config.interleaved
        self.multipliers = frequency_multipliers(config.rope_parameters, self.width)
        self.amplitude = rotary_amplitude(config.rope_parameters)

    def forward(self, x, position_ids):
        """Of x its type and device; positions [B or 1, T] -> two of [B or 1, T, width]."""
        options = {"dtype": wide(x.dtype), "device": x.device}
        frequencies = 1.0 / self.theta ** (torch.arange(0, self.width, 2, **options) / self.width)
        if self.multipliers is not None:
            frequencies = frequencies * torch.tensor(self.multipliers, **options)
        with torch.autocast(device_type=x.device.type, enabled=False):
            angles = position_ids[..., None].to(frequencies.dtype) * frequencies
        if self.interleaved:
            angles = angles.repeat_interleave(2, dim=-1)
        else:
            angles = torch.cat((angles, angles), dim=-1)
        return [(each * self.amplitude).to(x.dtype) for each in (angles.cos(), angles.sin())]


def rotate(x, position_embeddings, interleaved):
    """Turns all channels of heads [B, T, heads, width]: i with i + width/2, or 2i with 2i + 1."""
    cos, sin = (each.unsqueeze(2) for each in position_embeddings)
    if interleaved:
        partners = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    else:
        first, second = x.chunk(2, dim=-1)
        partners = torch.cat((-second, first), dim=-1)
    return x * cos + partners * sin
