"""The maps as functions of tensors (arXiv 2510.23052, eq. 5-9).

Each calls the compiled operator of its name in ``torch.ops.kha``, so autograd, autocast, meta
tensors, ``torch.compile`` and ``torch.export`` work on it. What holds for all of them:

Shapes: `x` is ``[..., heads, D]`` with any leading dimensions, also none and also empty ones; its
last dimension has stride 1, other strides are free. One ``[D, D]`` matrix serves every head. The
result has the shape of `x`, is contiguous and aliases no argument.

Convention: the paper writes row vectors times matrices, ``y = x T``. Matrices are taken as
``torch.nn.Linear`` stores them, ``[out, in]``, so ``M = T^T`` and ``y = x M^T``.

Dtypes: float32, float64, bfloat16 and float16, all arguments of a call alike; under autocast they
are cast to its dtype first.

Memory: backward keeps the arguments, nothing else; what lies between is computed again.

Errors: ValueError that names operator, argument, value received, value allowed and fix. Second
derivatives are not implemented; asking for one is a RuntimeError.
"""

import torch
from torch import Tensor

__all__ = ["knock_gate", "knock_linear", "knock_mlp", "knocked_linear"]


def knock_linear(x: Tensor, weight: Tensor) -> Tensor:
    """``y = x M^T`` (eq. 5, 6); the identity for ``M = I``, bit for bit.

    `x`: ``[..., heads, D]``; `weight` is M, ``[D, D]``. Result: ``[..., heads, D]``.
    """
    return torch.ops.kha.knock_linear(x, weight)


def knock_mlp(x: Tensor, up: Tensor, gate: Tensor, down: Tensor) -> Tensor:
    """``y = 2 (x U^T * sigmoid(x G^T)) W^T``, ``*`` elementwise (eq. 7, 9).

    `x`: ``[..., heads, D]``; `up` is U, `gate` G, `down` W, each ``[D, D]``. Result: ``[..., heads,
    D]``. The identity for ``U = W = I, G = 0``, bit for bit.
    """
    return torch.ops.kha.knock_mlp(x, up, gate, down)


def knock_gate(x: Tensor, gate: Tensor) -> Tensor:
    """``y = 2 x * sigmoid(x G^T)``, the paper's gate (table 2) and what a folded mlp map leaves.

    `x`: ``[..., heads, D]``; `gate` is G, ``[D, D]``. Result: ``[..., heads, D]``. The identity for
    ``G = 0``, bit for bit.
    """
    return torch.ops.kha.knock_gate(x, gate)


def knocked_linear(x: Tensor, weight: Tensor, bias: Tensor | None, map: Tensor) -> Tensor:
    """A projection and its linear map in one: ``y = x (M W_h)^T + M b_h`` for every head h (eq. 8).

    `x`: ``[..., d]``, any strides; `weight`: ``[heads * D, d]``; `bias`: ``[heads * D]`` or None;
    `map` is M, ``[D, D]``, whose size gives the heads. Result: ``[..., heads * D]``. Equals
    `knock_linear` of the projection up to rounding; cheaper as soon as `x` has more rows than d.
    Backward forms ``M W`` again, so nothing is kept beside the arguments.
    """
    return torch.ops.kha.knocked_linear(x, weight, bias, map)
