"""Takes the maps out of a live model by multiplying them into its weights.

Equal to ``kha fold`` of the same model: products in float64, rounded once to the weight's dtype.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .errors import fail
from .figures import condition_number
from .modules import KnockingHeads
from .places import MapPlace, maps_of
from .projection import detach

CONDITION_LIMIT = 1e4


@dataclass
class FoldedMap:
    """What became of one map: "folded", "became gate", "down only" or "kept"."""

    layer: int
    slot: str
    name: str
    before: str
    after: str
    outcome: str
    condition: float | None = None  # of U, where it decided
    reason: str = ""


@dataclass
class FoldReport:
    """The maps, and the largest change of a logit on the ids that `fold` was given."""

    maps: list[FoldedMap] = field(default_factory=list)
    logit_difference: float | None = None

    def __str__(self) -> str:
        lines = [f"{each.name}: {each.before} {each.outcome}" +
                 (f" ({each.reason})" if each.reason else "") for each in self.maps]
        if self.logit_difference is not None:
            lines.append(f"largest logit difference {self.logit_difference:.3g}")
        return "\n".join(lines)


@dataclass
class _Plan:
    place: MapPlace
    told: FoldedMap
    rows: Tensor | None = None  # into the projection, float64
    columns: Tensor | None = None  # into the output projection, float64
    gate: Tensor | None = None  # of the gate that is left
    down: Tensor | None = None  # what stays in place of W


def fold(model: nn.Module, ids: Tensor | None = None, *,
         condition_limit: float = CONDITION_LIMIT) -> FoldReport:
    """Folds every map that can leave its model, in place, and says what became of each.

    A linear map leaves whole: ``W_h <- M W_h, b_h <- M b_h`` for every head (eq. 8), and the
    projection is a plain Linear again. An mlp map on values leaves in part, exactly, since
    attention is linear in them: U goes into the projection, W into the output projection, and a map
    of kind "gate" with ``R = G U^-1`` stays; where the condition number of U is above
    `condition_limit` only W leaves. Gates, and mlp maps on queries and keys, stay. After the last
    map has left, `save_pretrained` writes the plain model again.

    `ids`: token ids ``[batch, time]``; with them the report has the largest difference of the
    logits before and after. Optimisers hold the old parameters: fold when training is over.

    Raises KhaError and changes nothing where the model has no map that can leave, where a matrix is
    not finite, where a weight is sharded or shared, and where the output projection is needed and
    was not named.
    """
    if not condition_limit >= 1:
        fail("the limit of the condition number is too low", expected="at least 1, the condition "
             "number of the identity", found=str(condition_limit))
    places = maps_of(model)
    if not places:
        fail("nothing to fold: the model has no maps", where=type(model).__name__,
             cause="it was folded already, or insert was never called")
    plans = [_plan(place, condition_limit) for place in places]
    if all(plan.told.outcome == "kept" for plan in plans):
        reasons = sorted({f"{each.told.before} on {each.told.slot}: {each.told.reason}"
                          for each in plans})
        fail("nothing to fold: none of the model's maps can leave it", where=type(model).__name__,
             found="; ".join(reasons), next="use the model as it is")
    _check_weights(model, plans)
    report = FoldReport([plan.told for plan in plans])
    before = _logits(model, ids)
    with torch.no_grad():
        folded = [_products(plan) for plan in plans]  # all of them before the first is written
        for plan, values in zip(plans, folded):
            for parameter, value in values:
                parameter.copy_(value)
            _carry_out(plan)
    if not maps_of(model):
        model.__dict__.pop("save_pretrained", None)
    if before is not None:
        report.logit_difference = float((_logits(model, ids) - before).abs().max())  # type: ignore[operator]
    return report


def _plan(place: MapPlace, limit: float) -> _Plan:
    kind, slot = place.knock.kind, place.slot
    told = FoldedMap(place.layer, slot, place.name, kind, kind, "kept")
    plan = _Plan(place, told)
    matrices = {name: _finite(f"{place.name}.{name}", value)
                for name, value in place.knock.matrices().items()}
    if kind == "linear":
        told.after, told.outcome, plan.rows = "none", "folded", matrices["weight"]
    elif kind == "gate":
        told.reason = "a gate depends on its input, so it does not fold"
    elif slot != "v":
        told.reason = f"what follows {slot} is not linear in it, so an mlp map there does not fold"
    else:
        _plan_values(plan, matrices, limit)
    return plan


def _plan_values(plan: _Plan, matrices: dict[str, Tensor], limit: float) -> None:
    told, up, down = plan.told, matrices["up.weight"], matrices["down.weight"]
    told.condition = condition_number(up)
    if told.condition <= limit:
        plan.rows, plan.columns = up, down
        plan.gate = torch.linalg.solve(up, matrices["gate.weight"], left=False)  # R U = G
        told.after, told.outcome = "gate", "became gate"
        told.reason = "up went into the projection and down into the output projection"
        return
    told.reason = (f"the condition number of up, {told.condition:.3g}, is above {limit:g}: up and "
                   "gate stay")
    identity = torch.eye(len(down), dtype=down.dtype, device=down.device)
    if not torch.equal(down, identity):  # else it was folded as far as it goes
        plan.columns, plan.down, told.outcome = down, identity, "down only"


def _finite(name: str, value: Tensor) -> Tensor:
    if type(value.data) is not Tensor:
        fail(f"{name} is a {type(value.data).__name__}, and only whole tensors fold",
             cause="the model is sharded",
             next="gather the weights first: torch.distributed.checkpoint.state_dict")
    wide = value.detach().double()
    if not wide.isfinite().all():
        fail(f"{name} holds values that are not finite, so it cannot be folded",
             cause="the training run diverged", next="use an earlier checkpoint")
    return wide


def _check_weights(model: nn.Module, plans: list[_Plan]) -> None:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for plan in plans:
        if plan.columns is not None and plan.place.output_name is None:
            fail("an mlp map folds into the output projection, which was not named",
                 where=plan.place.name, next='insert(model, setting, projections={…, "o": "attn.wo"},'
                 " head_dim=…)")
        for target in _targets(plan):
            if type(target) is not nn.Linear and target is not plan.place.projection:
                fail("this projection is not a plain torch.nn.Linear", where=plan.place.name,
                     expected="torch.nn.Linear", found=type(target).__name__)
            for parameter in target.parameters(recurse=False):
                if type(parameter.data) is not Tensor:
                    fail("the model is sharded, and only whole tensors fold", where=plan.place.name,
                         found=type(parameter.data).__name__,
                         next="gather the weights first: torch.distributed.checkpoint.state_dict")
                shared = names[id(parameter)]
                if len(shared) > 1:
                    fail("this weight has more than one owner, so a map cannot go into it",
                         where=shared[0], found="also " + ", ".join(shared[1:]))


def _output(plan: _Plan) -> nn.Linear:
    output = plan.place.owner.get_submodule(str(plan.place.output_name))
    return output  # type: ignore[return-value]


def _targets(plan: _Plan) -> list[nn.Module]:
    targets: list[nn.Module] = [plan.place.projection] if plan.rows is not None else []
    return targets + ([_output(plan)] if plan.columns is not None else [])


def _products(plan: _Plan) -> list[tuple[nn.Parameter, Tensor]]:
    """The weights that change, and what they become, rounded to their type."""
    place, values = plan.place, []
    if plan.rows is not None:
        for parameter in (place.projection.weight, place.projection.bias):
            if parameter is not None:
                values.append((parameter, _into_rows(parameter, plan.rows)))
    if plan.columns is not None:
        weight = _output(plan).weight
        values.append((weight, _into_columns(weight, plan.columns)))
    for parameter, value in values:
        if not value.isfinite().all():
            fail("a folded weight is too large for its type", where=place.name,
                 expected=f"values that {str(parameter.dtype).removeprefix('torch.')} can hold",
                 next="fold a copy of a wider type: model.float()")
    return values


def _carry_out(plan: _Plan) -> None:
    place = plan.place
    if plan.down is not None:
        place.knock.down.weight.copy_(plan.down)
    if plan.told.after == "none":
        detach(place.projection)
        delattr(place.owner, f"knock_{place.slot}")
    elif plan.gate is not None:
        _leave_gate(place, plan.gate)


def _into_rows(weight: Tensor, map: Tensor) -> Tensor:
    """M W_h for each head's rows; a bias is a weight of one column."""
    heads = weight.detach().double().reshape(-1, len(map), weight[0].numel())
    return (map @ heads).reshape(weight.shape).to(weight.dtype)


def _into_columns(weight: Tensor, map: Tensor) -> Tensor:
    """W_h M for each query head's columns of an output projection."""
    heads = weight.detach().double().reshape(len(weight), -1, len(map))
    return (heads @ map).reshape(weight.shape).to(weight.dtype)


def _leave_gate(place: MapPlace, gate: Tensor) -> None:
    old = place.knock.gate.weight
    knock = KnockingHeads(place.knock.head_dim, "gate", device=old.device, dtype=old.dtype)
    knock.gate.weight.copy_(gate)
    knock.gate.weight.requires_grad_(old.requires_grad)
    knock.train(place.knock.training)
    knock.place = place.knock.place
    setattr(place.owner, f"knock_{place.slot}", knock)
    place.projection.__dict__["knock"] = knock


def _logits(model: nn.Module, ids: Tensor | None) -> Tensor | None:
    if ids is None:
        return None
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            answer = model(ids)
    finally:
        for module, training in modes.items():
            module.training = training
    return getattr(answer, "logits", answer).double()
