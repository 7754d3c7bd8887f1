"""Figures of what the maps have become: their matrices, and what training changed in them."""

from .figure import Figure, file_name
from .matrix_pictures import Picture, draw_matrices, limit_of
from .runs import Run
from .study import Study, only_first_seed
from .weights import Maps, read_maps

MOST_NUMBERS = 250_000  # of a table of whole matrices
NO_MAPS = "No run here has maps: there is only a baseline, which has nothing to learn there."


def maps_table(run: Run, matrices: dict) -> tuple[list[str], list[list]]:
    """Every element, or what each row of a layer's matrix comes to where that is too long."""
    short = sum(m.size for by in matrices.values() for m in by.values()) <= MOST_NUMBERS
    rows: list[list] = []
    for place, by_layer in matrices.items():
        for layer, m in sorted(by_layer.items()):
            start, sides = [run.label, layer, place.title], range(len(m))
            if short:
                rows += [start + [i, j, f"{m[i, j]:.7g}"] for i in sides for j in sides]
            else:
                rows += [start + [i, m[i, i], abs(m[i]).sum() - abs(m[i, i])] for i in sides]
    head = ["row", "column", "value"] if short else ["row", "diagonal", "sum of |others|"]
    return ["setting", "layer", "matrix", *head], rows


def heat_map(key: str, title: str, caption: str, run: Run, matrices: dict, limit: float,
             unit: str) -> Figure:  # fmt: skip
    rows = {
        place.title: [Picture(f"layer {layer}", m) for layer, m in sorted(by_layer.items())]
        for place, by_layer in matrices.items()
    }
    columns, table = maps_table(run, matrices)
    sizes = []
    for place, by_layer in matrices.items():
        diagonal = sum(float(m.diagonal().mean()) for m in by_layer.values()) / len(by_layer)
        sizes.append(f"{place.title}: mean diagonal {diagonal:+.3f}")
    return Figure(
        f"{key}-{file_name(run.label)}",
        f"{title}: {run.name}",
        caption,
        f"Heat maps of {', '.join(rows)} in every layer. {'; '.join(sizes)}.",
        lambda narrow: draw_matrices(rows, limit, unit, narrow),
        columns,
        table,
        bitmap=True,
    )


def heat_maps(study: Study) -> list[Figure]:
    title = "Learned maps"
    found: list[tuple[Run, Maps]] = []
    for run in study.first_runs():
        maps = read_maps(run)
        if maps:
            found.append((run, maps))
    if not found:
        return [Figure("maps", title, missing=why_no_maps(study))]
    changes = {run.label: maps.changes() for run, maps in found}
    spread = limit_of([m for c in changes.values() for by in c.values() for m in by.values()])
    whole = [m for _, maps in found for by in maps.matrices.values() for m in by.values()]
    range_ = limit_of(whole, at_least=1.0)
    figures = []
    common = (
        "As in the paper y = x M: a row is an input, a column an output of one head's {d} "
        "features. One colour range for all matrices of all settings, centred on 0; 0.2 % of the "
        "values lie beyond it." + only_first_seed(study)
    )
    for run, maps in found:
        width = len(next(iter(next(iter(maps.matrices.values())).values())))
        words = common.format(d=width) + f" Checkpoint {maps.step}."
        figures.append(
            heat_map("map-change", "What training changed", "M less its start value (the identity "
                     f"for T, U and W, 0 for G). {words}", run, changes[run.label], spread,
                     "M \u2212 start")
        )  # fmt: skip
        figures.append(
            heat_map("maps", "The maps themselves", f"M as it is used. {words}", run,
                     maps.matrices, range_, "M")
        )  # fmt: skip
    return figures


def why_no_maps(study: Study) -> str:
    if all(run.setting == "baseline" for run in study.runs):
        return NO_MAPS
    if not any((run.folder / "checkpoints" / "latest").exists() for run in study.runs):
        return "There is no checkpoint to read the maps from: none was saved yet, or they are gone."
    return "The last checkpoint of none of these runs has maps."
