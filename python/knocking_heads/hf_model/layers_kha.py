"""The parts of a kha model below attention: norm, maps, feed-forward.

Shapes: B sequences, T positions, d the model's width; heads are [B, T, heads, D].
"""

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
