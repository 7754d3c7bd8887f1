"""Puts maps into a live model: nothing is copied, no weight changes, the logits stay."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from torch import nn

from .errors import fail
from .modules import KnockingHeads
from .places import AttentionPlace, attention_places, maps_of
from .projection import PLANS, KnockedProjection, attach, choose_plan
from .saving import SavePretrained
from .settings import STARTS, kinds_of

Model = TypeVar("Model", bound=nn.Module)

# What wraps a model holds on to its parameters, so it must come after the insertion.
_WRAPPERS = {"DistributedDataParallel": "DistributedDataParallel(model)",
             "FullyShardedDataParallel": "fully_shard(model)",
             "DataParallel": "DataParallel(model)", "OptimizedModule": "torch.compile(model)"}
_TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def insert(model: Model, setting: str | Mapping[str, str], layers: Iterable[int] | None = None,
           projections: Mapping[str, str] | None = None, *, head_dim: int | None = None,
           start: str = "identity", plan: str = "auto") -> Model:
    """Puts the maps of `setting` behind the projections of a model, in place; returns the model.

    `setting` is a named one ("kha-linear", "kha-linear-v", "kha-mlp", "kha-mlp-qkv", "kha-gate-v")
    or a mapping of q, k and v to "linear", "mlp", "gate" or "none". `layers` limits it to some
    layers; further ones may follow in a second call. Models of transformers of type qwen3,
    qwen3_moe, llama, mistral and qwen2 are known; in any other module name the projections below a
    layer and the width of a head: ``projections={"q": "attn.wq", "k": "attn.wk", "v": "attn.wv",
    "o": "attn.wo"}, head_dim=128``. Only the projections that get a map are needed, and "o" where
    an mlp map shall be folded later.

    A map acts right behind its projection, so before QK-norm, rotary embedding and the KV cache
    (section 4.5.2 of arXiv 2510.23052), and has the projection's dtype and device. With
    ``start="identity"`` the logits are those of before, bit for bit; "random" is the paper's
    ablation, normal with the model's `initializer_range`. Parameters are named as on disk:
    ``model.layers.0.self_attn.knock_v.up.weight``. `plan` says where linear maps train: "auto" by
    the micro-batch's shape, or forced, "weight_space" or "activation_space".

    Insert before compiling, wrapping or sharding the model, and before making its optimiser; and
    into the whole model, not into a part of it: what is saved is the model that was given here.

    Raises KhaError (a ValueError) and changes nothing where a layer has such a map already, where
    a projection is no plain Linear (quantised, sharded, replaced), where its rows are no multiple
    of head_dim, and for names that are not known.
    """
    kinds = kinds_of(setting)
    _check_words(start, plan)
    _check_unwrapped(model)
    places = _chosen(attention_places(model, projections, head_dim), layers, type(model).__name__)
    for place in places:
        for slot, kind in kinds.items():
            _check_free(place, slot)
            _check_projection(place, slot)
    config = getattr(model, "config", None)
    std = float(getattr(config, "initializer_range", 0.02))
    for place in places:
        for slot, kind in kinds.items():
            _insert_map(place, slot, kind, start, std, plan)
    if hasattr(type(model), "save_pretrained") and "save_pretrained" not in model.__dict__:
        model.__dict__["save_pretrained"] = SavePretrained(model)
    return model


def plan(model: nn.Module, tokens: int | None = None) -> dict[str, str]:
    """Where each linear map trains, by its name: "weight_space" or "activation_space".

    `tokens` is the micro-batch, batch times time; without it, maps whose plan follows the shape
    say from how many tokens on the weight is the place. Evaluation and decoding map activations.
    """
    plans = {}
    for place in maps_of(model):
        width = place.projection.in_features
        if place.knock.kind != "linear":
            plans[place.name] = "activation_space"
        elif place.projection.plan != "auto":
            plans[place.name] = place.projection.plan
        elif tokens is not None:
            plans[place.name] = choose_plan(tokens, width)
        else:
            plans[place.name] = f"weight_space above {width} tokens, activation_space up to there"
    return plans


def _check_words(start: str, plan: str) -> None:
    if start not in STARTS:
        fail(f"unknown start of the maps `{start}`", expected="identity or random",
             found=repr(start))
    if plan not in PLANS:
        fail(f"unknown plan `{plan}`", expected=", ".join(PLANS), found=repr(plan))


def _check_unwrapped(model: nn.Module) -> None:
    for name, module in model.named_modules():
        wrapper = _WRAPPERS.get(type(module).__name__)
        if wrapper is None and hasattr(type(module), "set_requires_gradient_sync"):
            wrapper = "fully_shard(model)"
        if wrapper:
            fail("the model is wrapped already", where=name or type(module).__name__,
                 found=type(module).__name__, cause="its parameters are taken; maps would not train",
                 next=f"insert the maps first, then {wrapper}")


def _chosen(places: list[AttentionPlace], layers: Iterable[int] | None,
            where: str) -> list[AttentionPlace]:
    if layers is None:
        return places
    wanted = set(layers)
    missing = sorted(wanted - {place.layer for place in places})
    if missing or not wanted:
        fail("the model has no such layer" if missing else "no layer is named", where=where,
             expected=f"0 to {places[-1].layer}", found=", ".join(map(str, missing)) or "an empty list")
    return [place for place in places if place.layer in wanted]


def _check_free(place: AttentionPlace, slot: str) -> None:
    if slot not in place.projections:
        fail(f"the projection of {slot} is not named", where="projections",
             expected=f'an entry "{slot}"', found=", ".join(place.projections))
    own = getattr(place.owner, f"knock_{slot}", None)
    taken = place.projection(slot)
    if own is None and isinstance(taken, KnockedProjection):
        own = taken.knock
    if own is not None:
        fail(f"layer {place.layer} has a map on {slot} already", where=place.name_of(slot),
             found=str(getattr(own, "kind", type(own).__name__)),
             next="name layers without one (layers=[…]), or fold first: knocking_heads.fold(model)")


def _check_projection(place: AttentionPlace, slot: str) -> None:
    linear, name = place.projection(slot), place.name_of(slot)
    if type(linear) is not nn.Linear:
        kind = f"{type(linear).__module__}.{type(linear).__name__}"
        fail("this projection is not a plain torch.nn.Linear, so a map cannot stand behind it",
             where=name, expected="torch.nn.Linear", found=kind,
             cause="the model was quantised, sharded or had its modules replaced",
             next="insert the maps first, or load the model unquantised")
    assert isinstance(linear, nn.Linear)
    weight = linear.weight
    if type(weight.data) is not torch.Tensor or weight.dtype not in _TYPES:
        fail("this projection's weight is not a plain tensor of floats", where=f"{name}.weight",
             expected="float32, float64, bfloat16 or float16",
             found=f"{type(weight.data).__name__} of {str(weight.dtype).removeprefix('torch.')}",
             cause="the model was quantised or sharded",
             next="insert the maps first, or load the model unquantised")
    if "forward" in linear.__dict__:
        fail("another library replaced this projection's forward, so a map would not act",
             where=name, cause="a device_map or an adapter", next="insert the maps before that")
    if weight.shape[0] % place.head_dim:
        fail("the projection's rows are not whole heads", where=f"{name}.weight",
             expected=f"a multiple of head_dim = {place.head_dim} rows",
             found=str(list(weight.shape)))
    known = getattr(place.owner, "head_dim", place.head_dim)
    if isinstance(known, int) and known != place.head_dim:
        fail("head_dim is not that of the attention module", where=place.name,
             expected=str(known), found=str(place.head_dim))


def _insert_map(place: AttentionPlace, slot: str, kind: str, start: str, std: float,
                plan: str) -> None:
    linear = place.projection(slot)
    assert isinstance(linear, nn.Linear)
    knock = KnockingHeads(place.head_dim, kind, start, std=std, device=linear.weight.device,
                          dtype=linear.weight.dtype)
    knock.train(linear.training)
    knock.place = (place.layer, slot, place.projections[slot], place.projections.get("o"))
    place.owner.add_module(f"knock_{slot}", knock)
    attach(linear, knock, plan)
