"""Where maps stand in a model and where they may: the projections of each layer's attention."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from .errors import fail
from .modules import KnockingHeads
from .projection import KnockedProjection
from .settings import SLOTS

# Families of transformers whose attention is grouped-query attention with separate projections.
FAMILIES = ["qwen3", "qwen3_moe", "llama", "mistral", "qwen2"]
_OWN_NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}


@dataclass
class AttentionPlace:
    """One layer's attention: the module that owns the maps and its projections below it."""

    layer: int
    name: str  # of the module, "" for the model itself
    owner: nn.Module
    projections: dict[str, str]  # slot (and "o") -> name below the owner
    head_dim: int

    def projection(self, slot: str) -> nn.Module:
        return self.owner.get_submodule(self.projections[slot])

    def name_of(self, slot: str) -> str:
        return ".".join(filter(None, [self.name, self.projections[slot]]))


@dataclass
class MapPlace:
    """A map that stands in a model."""

    layer: int
    slot: str
    name: str  # of the map: "model.layers.0.self_attn.knock_v"
    owner: nn.Module
    knock: KnockingHeads
    projection: KnockedProjection
    projection_name: str
    output_name: str | None  # of the output projection below the owner


def maps_of(model: nn.Module) -> list[MapPlace]:
    """The maps that `insert` put into the model, by layer and slot."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, KnockingHeads) and "place" in module.__dict__:
            layer, slot, projection, output = module.place
            owner_name = name.rpartition(".")[0]
            owner = model.get_submodule(owner_name)
            target = owner.get_submodule(projection)
            if not isinstance(target, KnockedProjection) or target.knock is not module:
                fail(f"{name} is not behind its projection, where insert put it",
                     where=f"{owner_name}.{projection}", expected="the projection that insert changed",
                     found=type(target).__name__, cause="a module was replaced or wrapped after the insertion",
                     next="merge or unload an adapter; else change modules first, then insert")
            found.append(MapPlace(layer, slot, name, owner, module, target,
                                  ".".join(filter(None, [owner_name, projection])), output))
    return sorted(found, key=lambda place: (place.layer, SLOTS.index(place.slot)))


def attention_places(model: nn.Module, projections: Mapping[str, str] | None,
                     head_dim: int | None) -> list[AttentionPlace]:
    """Every layer that may have maps: known by its family, or by the names of its projections."""
    if projections is not None:
        return _named_places(model, projections, head_dim)
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", None)
    if family == "kha":
        fail("this model brings its maps itself", where=type(model).__name__,
             next="open its folder with knocking_heads.load(folder) to have them as modules")
    if family not in FAMILIES:
        fail(f"insert does not know where the projections of {type(model).__name__} are",
             expected="a transformers model of type " + ", ".join(FAMILIES),
             found=f"model_type {family}" if family else "a module without a config",
             next='name them: projections={"q": "attn.wq", "k": "attn.wk", "v": "attn.wv", '
                  '"o": "attn.wo"}, head_dim=128')
    return list(_family_places(model, head_dim))


def _family_places(model: nn.Module, head_dim: int | None) -> Iterator[AttentionPlace]:
    for name, module in model.named_modules():
        if all(own in module._modules for own in _OWN_NAMES.values()):
            width = int(module.head_dim)  # type: ignore[arg-type]
            if head_dim is not None and head_dim != width:
                fail("head_dim is not that of the model", where=name, expected=str(width),
                     found=str(head_dim), next="leave it out")
            yield AttentionPlace(int(module.layer_idx),  # type: ignore[arg-type]
                                 name, module, dict(_OWN_NAMES), width)


def _named_places(model: nn.Module, projections: Mapping[str, str],
                  head_dim: int | None) -> list[AttentionPlace]:
    if not projections:
        fail("no projection is named", where="projections", found="an empty mapping",
             next='projections={"q": "attn.wq", "k": "attn.wk", "v": "attn.wv", "o": "attn.wo"}')
    for slot in projections:
        if slot not in _OWN_NAMES:
            fail(f"unknown projection `{slot}`", expected="q, k, v or o", found=repr(slot))
    if head_dim is None or head_dim < 1:
        fail("head_dim is needed where projections are named", expected="the width of a head",
             found=str(head_dim), next="insert(model, setting, projections=…, head_dim=…)")
    common, below = _split_common(projections)
    places = []
    for name, module in model.named_modules():
        if name != common and not name.endswith("." + common) and common:
            continue
        if all(_has(module, path) for path in below.values()):
            places.append(AttentionPlace(len(places), name, module, below, head_dim))
    if not places:
        fail("no module has these projections", where=type(model).__name__,
             expected="names below the layers of the model, the same in every layer",
             found=", ".join(f"{slot}: {path}" for slot, path in projections.items()),
             next="print(model) shows the names")
    return places


def _split_common(projections: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The path that all projections share, and what is left of each."""
    paths = [path.split(".") for path in projections.values()]
    depth = 0
    while all(len(path) > depth + 1 and path[depth] == paths[0][depth] for path in paths):
        depth += 1
    below = {slot: ".".join(path[depth:]) for slot, path in zip(projections, paths)}
    return ".".join(paths[0][:depth]), below


def _has(module: nn.Module, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True
