"""An optimiser's parameter groups with the decay settings of ``kha train``."""

from typing import Any

import torch
from torch import nn

from .errors import fail
from .modules import KnockingHeads
from .settings import TENSORS
from .shards import identity_part

DECAYS = ["paper", "none", "to_identity"]
# Key of a group: the decay towards the identity, which torch's optimisers do not know.
IDENTITY_DECAY = "decay_to_identity"
_hook: Any = None


def parameter_groups(model: nn.Module, weight_decay: float = 0.1, knock_decay: str = "to_identity",
                     knock_lr_scale: float = 1.0, lr: float | None = None) -> list[dict[str, Any]]:
    """Groups for torch's optimisers: matrices decay, norms and biases do not, maps as `knock_decay`
    says.

    "to_identity" (the default, for maps inserted into a trained model) draws every map towards the
    identity: U, W and T to I, G to 0, each by ``lr * weight_decay`` of its distance a step, before
    the update. "paper" decays them to zero as every other matrix (kha.md section 3; the default of
    ``kha train`` from scratch), "none" not at all. `lr` and `knock_lr_scale` give the maps a rate of
    their own; without `lr` every group has the optimiser's.

    Only parameters that require a gradient are in a group, and a shared one is in one group once.
    Each group has a "name": "matrices", "norms and biases", "maps", "gates". Make the groups after
    the insertion and after sharding. Works with any optimiser of torch that reads "lr" from its
    groups, transformers' Trainer included.
    """
    if knock_decay not in DECAYS:
        fail(f"unknown decay of the maps `{knock_decay}`", expected=", ".join(DECAYS),
             found=repr(knock_decay))
    if weight_decay < 0:
        fail("a weight decay below 0 lets weights grow", expected="at least 0",
             found=str(weight_decay))
    if knock_lr_scale != 1.0 and lr is None:
        fail("knock_lr_scale scales `lr`, which is not given", next="parameter_groups(…, lr=…)")
    sets = _sets(model)
    zero = 0.0 if knock_decay == "none" else weight_decay
    groups: list[dict[str, Any]] = [
        {"name": "matrices", "params": sets["matrices"], "weight_decay": weight_decay},
        {"name": "norms and biases", "params": sets["others"], "weight_decay": 0.0},
        {"name": "maps", "params": sets["maps"], "weight_decay": zero},
        {"name": "gates", "params": sets["gates"], "weight_decay": zero},
    ]
    if knock_decay == "to_identity":
        groups[2].update({"weight_decay": 0.0, IDENTITY_DECAY: weight_decay})
        _install()
    if lr is not None:
        for group in groups:
            maps = group["name"] in ("maps", "gates")
            group["lr"] = lr * (knock_lr_scale if maps else 1.0)
    return [group for group in groups if group["params"]]


def _sets(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    kinds = {}
    for module in model.modules():
        if isinstance(module, KnockingHeads):
            for name, identity in TENSORS[module.kind].items():
                kinds[id(module.get_parameter(name))] = "maps" if identity else "gates"
    sets: dict[str, list[nn.Parameter]] = {"matrices": [], "others": [], "maps": [], "gates": []}
    for parameter in model.parameters():
        if parameter.requires_grad:
            usual = "matrices" if parameter.dim() > 1 else "others"
            sets[kinds.get(id(parameter), usual)].append(parameter)
    return sets


def _install() -> None:
    """One hook for all optimisers: it acts on groups that carry the key and on no other."""
    global _hook
    if _hook is None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        _hook = register_optimizer_step_pre_hook(_decay_to_identity)


@torch.no_grad()
def _decay_to_identity(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    for group in optimizer.param_groups:
        moving = [each for each in group["params"] if each.grad is not None]
        if group.get(IDENTITY_DECAY, 0.0) and moving:
            parts, targets = zip(*map(identity_part, moving))
            torch._foreach_lerp_(parts, targets, float(group["lr"]) * group[IDENTITY_DECAY])
