"""The map of one projection as a module, with the parameter names that stand on disk."""

import torch
from torch import Tensor, nn

from .errors import fail
from .operators import knock_gate, knock_linear, knock_mlp
from .settings import STARTS, TENSORS, check_kind
from .shards import start_at_identity


class MapMatrix(nn.Module):
    """One ``[D, D]`` matrix of a map. No Linear: what rewrites Linears shall leave it alone."""

    weight: nn.Parameter

    def __init__(self, width: int, device: torch.device | str | None = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width, device=device, dtype=dtype))


class KnockingHeads(nn.Module):
    """One small map that all heads of a layer share (arXiv 2510.23052, eq. 5-9).

    `kind` is "linear" (``y = x M^T``), "mlp" (``y = 2 (x U^T * sigmoid(x G^T)) W^T``) or "gate"
    (``y = 2 x * sigmoid(x G^T)``). Input and output are ``[..., heads, head_dim]``, last stride 1,
    in the parameters' dtype (float32, float64, bfloat16 or float16) or under autocast.

    Parameters, each ``[head_dim, head_dim]`` and named as in a checkpoint: ``weight`` (linear),
    ``up.weight``, ``gate.weight``, ``down.weight`` (mlp), ``gate.weight`` (gate). With
    ``start="identity"`` the map is the identity bit for bit; with "random" every matrix is normal
    with standard deviation `std`.

    Raises ValueError for another kind or start, a head_dim below 1, and, in a call, a tensor whose
    last dimension is not head_dim.
    """

    weight: nn.Parameter
    up: MapMatrix
    gate: MapMatrix
    down: MapMatrix

    def __init__(self, head_dim: int, kind: str, start: str = "identity", *, std: float = 0.02,
                 device: torch.device | str | None = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        check_kind(kind)
        if start not in STARTS:
            fail(f"unknown start of the maps `{start}`", expected="identity or random",
                 found=repr(start))
        if head_dim < 1:
            fail("a map needs a head width", expected="head_dim of at least 1", found=str(head_dim))
        self.head_dim = head_dim
        self.kind = kind
        self.start = start
        self.std = std
        for name in TENSORS[kind]:
            matrix = MapMatrix(head_dim, device, dtype)
            if name == "weight":
                self.weight = matrix.weight
            else:
                self.add_module(name.removesuffix(".weight"), matrix)
        self.reset_parameters()

    def matrices(self) -> dict[str, nn.Parameter]:
        """The parameters by their names below the map's."""
        return {name: self.get_parameter(name) for name in TENSORS[self.kind]}

    def reset_parameters(self) -> None:
        """The start values again; called by whoever fills a module that was made on "meta"."""
        with torch.no_grad():
            for name, identity in TENSORS[self.kind].items():
                parameter = self.get_parameter(name)
                if self.start == "random":
                    parameter.normal_(0, self.std)
                elif identity:
                    start_at_identity(parameter)
                else:
                    parameter.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "linear":
            return knock_linear(x, self.weight)
        if self.kind == "mlp":
            return knock_mlp(x, self.up.weight, self.gate.weight, self.down.weight)
        return knock_gate(x, self.gate.weight)

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, kind={self.kind}"
