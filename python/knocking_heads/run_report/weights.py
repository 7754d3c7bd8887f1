"""The learned maps of a run, read from its last checkpoint."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .lines import RunError
from .runs import Run

NAME = re.compile(
    r"model\.layers\.(\d+)\.self_attn\.knock_([qkv])\.(?:(up|gate|down)\.)?weight$"
)
LETTER = {None: "T", "up": "U", "gate": "G", "down": "W"}


@dataclass(frozen=True)
class Place:
    """Which matrix of a layer: the map's letter as in the paper, and the slot that it is on."""

    slot: str  # q, k or v
    letter: str  # T, U, G or W

    @property
    def title(self) -> str:
        return f"{self.letter} on {self.slot.upper()}"

    @property
    def start(self) -> str:
        return "0" if self.letter == "G" else "I"


@dataclass
class Maps:
    step: str  # "step-00001000"
    matrices: dict  # Place -> {layer: array [D, D], the paper's way: rows are inputs}

    @property
    def layers(self) -> list[int]:
        return sorted({layer for by_layer in self.matrices.values() for layer in by_layer})

    def changes(self) -> dict:
        """Less the start value: the identity, 0 for gates."""
        import numpy

        return {
            place: {
                layer: m - (0 if place.start == "0" else numpy.eye(len(m)))
                for layer, m in by_layer.items()
            }
            for place, by_layer in self.matrices.items()
        }


def files_of(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = json.loads(index.read_text())["weight_map"]
        return sorted({folder / file for name, file in names.items() if NAME.match(name)})
    one = folder / "model.safetensors"
    return [one] if one.is_file() else []


def read_maps(run: Run) -> Maps | None:
    """None where the run has no checkpoint, or its model no maps."""
    folder = (run.folder / "checkpoints" / "latest").resolve()
    if not folder.is_dir():
        return None
    from safetensors import SafetensorError, safe_open

    matrices: dict = {}
    for path in files_of(folder):
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():
                    match = NAME.match(name)
                    if match:
                        place = Place(match[2], LETTER[match[3]])
                        matrix = file.get_tensor(name).T.astype("float64")
                        matrices.setdefault(place, {})[int(match[1])] = matrix
        except (SafetensorError, OSError, TypeError) as error:
            raise RunError(
                f"{path} cannot be read: {error}\n  next: kha inspect {folder}, which says more"
            ) from error
    if not matrices:
        return None
    ordered = sorted(matrices, key=lambda p: ("qkv".index(p.slot), "TUGW".index(p.letter)))
    return Maps(folder.name, {place: matrices[place] for place in ordered})


def parameters_of(run: Run) -> tuple[int, int] | None:
    """All parameters and the maps', counted from the header of the last checkpoint."""
    folder = (run.folder / "checkpoints" / "latest").resolve()
    one = folder / "model.safetensors"
    if not one.is_file():
        return None
    with one.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    counts = {"all": 0, "maps": 0}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        size = 1
        for length in entry["shape"]:
            size *= length
        counts["all"] += size
        counts["maps"] += size if NAME.match(name) else 0
    return counts["all"], counts["maps"]
