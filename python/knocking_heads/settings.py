"""Which kind of map stands on which projection: kinds, slots and the named settings.

The same names as in a run's `knock.setting` and in the object `kha` of a config.json.
"""

from collections.abc import Mapping

from .errors import fail, nearest

KINDS = ["none", "linear", "mlp", "gate"]
SLOTS = ["q", "k", "v"]
STARTS = ["identity", "random"]

# Table 2 of arXiv 2510.23052; kha-mlp is the choice for its largest run.
SETTINGS: dict[str, dict[str, str]] = {
    "kha-linear": {"q": "linear", "k": "linear", "v": "linear"},
    "kha-linear-v": {"v": "linear"},
    "kha-mlp": {"v": "mlp"},
    "kha-mlp-qkv": {"q": "mlp", "k": "mlp", "v": "mlp"},
    "kha-gate-v": {"v": "gate"},
}

# Tensors of a map below its name, in the order of the operator's arguments; True where the matrix
# starts at the identity, False where at zero.
TENSORS: dict[str, dict[str, bool]] = {
    "linear": {"weight": True},
    "mlp": {"up.weight": True, "gate.weight": False, "down.weight": True},
    "gate": {"gate.weight": False},
}


def check_kind(kind: str) -> None:
    if kind not in TENSORS:
        fail(f"unknown kind of map `{kind}`{nearest(kind, list(TENSORS))}",
             expected="one of " + ", ".join(TENSORS), found=repr(kind))


def kinds_of(setting: str | Mapping[str, str]) -> dict[str, str]:
    """Slot -> kind of a named setting or of a mapping such as ``{"q": "linear", "v": "mlp"}``."""
    if isinstance(setting, str):
        if setting not in SETTINGS:
            more = " (it has no maps, so there is nothing to insert)" if setting == "baseline" else ""
            fail(f"unknown setting `{setting}`{nearest(setting, list(SETTINGS))}{more}",
                 expected="one of " + ", ".join(SETTINGS), found=repr(setting))
        return dict(SETTINGS[setting])
    for slot, kind in setting.items():
        if slot not in SLOTS:
            fail(f"unknown slot `{slot}`", expected="q, k or v", found=repr(slot))
        if kind != "none":
            check_kind(kind)
    kinds = {slot: setting[slot] for slot in SLOTS if setting.get(slot, "none") != "none"}
    if not kinds:
        fail("this setting has no maps, so there is nothing to insert",
             expected='a named setting, or a mapping such as {"v": "mlp"}', found=repr(dict(setting)))
    return kinds
