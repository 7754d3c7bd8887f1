"""What the maps of a live model have become: figures, a table and heat maps."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .errors import fail
from .figures import MatrixFigures, matrix_figures
from .places import maps_of
from .settings import SLOTS, TENSORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Limits of the colours: the paper clips its figure 3 to [0, 1]; gates stay near 0.
_LIMITS = {True: (0.0, 1.0), False: (-0.1, 0.1)}


@dataclass
class MapFigures:
    """One matrix of one map. `matrix` is "T" (linear), "up", "gate" or "down"."""

    layer: int
    slot: str
    kind: str
    matrix: str
    tensor: str
    figures: MatrixFigures
    values: Tensor
    starts_at_identity: bool


@dataclass
class MapReport:
    """Per layer, projection and matrix; print it for a table."""

    maps: list[MapFigures]

    def to_list(self) -> list[dict[str, Any]]:
        """The entries of ``kha inspect --json``, null where a number is not finite."""
        entries = []
        for each in self.maps:
            numbers = {key: value if math.isfinite(value) else None
                       for key, value in asdict(each.figures).items()}
            entries.append({"layer": each.layer, "slot": each.slot, "kind": each.kind,
                            "matrix": each.matrix, "tensor": each.tensor, **numbers,
                            "singular": math.isinf(each.figures.condition)})
        return entries

    def __str__(self) -> str:
        lines = [f"{'layer':>5} {'slot':>4} {'kind':>6} {'matrix':>6} {'identity':>10} "
                 f"{'condition':>10} {'diagonal':>9} {'off-diag':>9}"]
        for each in self.maps:
            f = each.figures
            lines.append(f"{each.layer:>5} {each.slot:>4} {each.kind:>6} {each.matrix:>6} "
                         f"{f.identity_distance:>10.4g} {f.condition:>10.4g} "
                         f"{f.diagonal_mean:>9.4f} {100 * f.off_diagonal_share:>8.1f}%")
        return "\n".join(lines)

    def figure(self) -> "Figure":
        """Heat maps as one matplotlib figure: a row a layer, a column a matrix, ``T`` as in the
        paper (row vectors times T) and clipped to [0, 1], gates to [-0.1, 0.1]. Needs matplotlib.
        """
        from matplotlib.figure import Figure

        layers = sorted({each.layer for each in self.maps})
        columns = sorted({(SLOTS.index(each.slot), each.matrix) for each in self.maps},
                         key=lambda column: (column[0], _order(column[1])))
        figure = Figure(figsize=(1 + 2.2 * len(columns), 0.6 + 2.2 * len(layers)),
                        layout="constrained")
        grid = figure.subplots(len(layers), len(columns), squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        images = {}
        for each in self.maps:
            axes = grid[layers.index(each.layer)][
                columns.index((SLOTS.index(each.slot), each.matrix))]
            low, high = _LIMITS[each.starts_at_identity]
            colours = "viridis" if each.starts_at_identity else "RdBu_r"
            images[each.starts_at_identity] = axes.imshow(
                each.values.T.numpy(), vmin=low, vmax=high, cmap=colours)
            axes.set_title(f"layer {each.layer}, {each.slot}: {each.matrix}", fontsize=8)
        for image in images.values():
            figure.colorbar(image, ax=grid.ravel().tolist(), shrink=0.6)
        return figure


def report(model: nn.Module) -> MapReport:
    """How far each map has gone from its start, and how well it can be inverted.

    The numbers are those of ``kha inspect --json`` on the saved model, computed in float64. Raises
    KhaError where the model has no maps; gathers sharded parameters, so that every rank must call.
    """
    maps = []
    for place in maps_of(model):
        for name, identity in TENSORS[place.knock.kind].items():
            value = _whole(place.knock.get_parameter(name))
            matrix = "T" if name == "weight" else name.removesuffix(".weight")
            maps.append(MapFigures(place.layer, place.slot, place.knock.kind, matrix,
                                   f"{place.name}.{name}", matrix_figures(value, identity), value,
                                   identity))
    if not maps:
        fail("the model has no maps", where=type(model).__name__,
             next='insert them: knocking_heads.insert(model, "kha-mlp")')
    return MapReport(maps)


def _order(matrix: str) -> int:
    return ["T", "up", "gate", "down"].index(matrix)


def _whole(parameter: Tensor) -> Tensor:
    value = parameter.detach()
    if hasattr(value, "full_tensor"):  # of a sharded model
        value = value.full_tensor()
    return value.double().cpu()
