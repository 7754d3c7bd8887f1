"""A Linear whose result goes through a map: what insertion makes of a projection.

The map's parameters belong to the attention module beside the projection, under the name that they
have on disk. So the projection knows its map without owning it, and no state dict changes but by
the map's own tensors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .modules import KnockingHeads
from .operators import knocked_linear

PLANS = ["auto", "weight_space", "activation_space"]


def choose_plan(tokens: int, model_width: int) -> str:
    """Where a linear map trains: in the weight when a micro-batch has more tokens than the
    projection has inputs, on the activations otherwise (as include/kha/ops/knock_plan.h)."""
    return "weight_space" if tokens > model_width else "activation_space"


def _exporting() -> bool:
    # The flag itself: dynamo takes torch.compiler.is_exporting() for true when it compiles, too.
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


class KnockedProjection(nn.Linear):
    """``y = map(x W^T + b)``, head by head. Made from a Linear in place by `attach`, never built."""

    knock: KnockingHeads
    plan: str

    def forward(self, x: Tensor) -> Tensor:
        """`x`: ``[..., d]``. Result: ``[..., heads * D]``, what the plain projection gives while
        the map is the identity."""
        knock = self.knock
        if knock.kind == "linear" and self._in_weight_space(x):
            return knocked_linear(x, self.weight, self.bias, knock.weight)
        y = F.linear(x, self.weight, self.bias)
        return knock(y.unflatten(-1, (-1, knock.head_dim))).flatten(-2)

    def _in_weight_space(self, x: Tensor) -> bool:
        """Only training gains by it. An exported program serves every length, so it has one plan."""
        if self.plan != "auto":
            return self.plan == "weight_space"
        if not self.training or _exporting():
            return False
        return choose_plan(x.numel() // self.in_features, self.in_features) == "weight_space"

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, map={self.knock.kind} on heads of {self.knock.head_dim}"


def attach(linear: nn.Linear, knock: KnockingHeads, plan: str) -> None:
    """Makes the Linear a KnockedProjection in place: parameters, hooks and identity stay its own."""
    linear.__class__ = KnockedProjection
    linear.__dict__["knock"] = knock  # past Module.__setattr__, which would register it here too
    linear.__dict__["plan"] = plan


def detach(projection: KnockedProjection) -> None:
    """The plain Linear again."""
    del projection.__dict__["knock"], projection.__dict__["plan"]
    projection.__class__ = nn.Linear  # type: ignore[assignment]
