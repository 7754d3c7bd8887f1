"""Figures of how alike the heads are, before and after the maps."""

from dataclasses import dataclass, field

from .figure import Figure, file_name, legend_below, panels, shortened
from .logged import OLD
from .matrix_pictures import Picture, draw_matrices
from .runs import Run
from .study import Study, only_first_seed
from .study_looks import looks_of
from .style import QUIET


def last_similarity(run: Run) -> dict[str, dict[str, dict[int, float]]]:
    """slot -> "before" / "after" -> layer -> mean |cosine|, of the last line that has it."""
    found: dict = {}
    for name, (_, values) in run.inner_series("heads/similarity").items():
        layer, slot, when = name.split(".")
        if values[-1] is not None:
            found.setdefault(slot, {}).setdefault(when, {})[int(layer)] = values[-1]
    return found


@dataclass
class Reference:
    """The plain model beside the mapped ones; its name is empty where there is none."""

    name: str = ""
    slots: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)


def reference_of(study: Study, found: dict) -> Reference:
    for group in study.groups:
        for run in group.runs:
            if group.reference and run.setting == group.reference:
                return Reference(run.label, found.get(run.label, {}))
    return Reference()


def slots_shown(found: dict) -> list[tuple[str, str]]:
    """Setting and slot: those with a map, or the values where no slot has one."""
    parts = []
    for label, slots in found.items():
        mapped = [slot for slot in "qkv" if "before" in slots.get(slot, {})]
        parts += [(label, slot) for slot in mapped or "v" if slot in slots]
    return parts


def draw_slot(axis, values: dict, plain: dict[int, float] | None, colour: str) -> None:
    if plain and "before" in values:
        axis.plot(*zip(*sorted(plain.items())), color="#8b949e", lw=1, ls=(0, (2, 2)))
    if "before" in values:
        axis.plot(*zip(*sorted(values["before"].items())), color=colour, lw=1.2,
                  ls=(0, (4, 2)), marker="o", mfc="white", markersize=6)  # fmt: skip
    axis.plot(*zip(*sorted(values["after"].items())), color=colour, lw=1.8, marker="o",
              markersize=6)  # fmt: skip
    axis.set_xlabel("layer")
    axis.set_ylim(0, 1)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("mean |cosine|")


def similarity_keys(reference: Reference) -> dict:
    from matplotlib.lines import Line2D

    keys = {
        "before the map": Line2D([], [], color=QUIET, ls=(0, (4, 2)), marker="o", mfc="white"),
        "after it (without a map: as it is)": Line2D([], [], color=QUIET, marker="o"),
    }
    if reference.slots:
        name = shortened(reference.name, 24)
        keys[f"{name}, same slot"] = Line2D([], [], color="#8b949e", ls=(0, (2, 2)))
    return keys


def draw_similarity(study: Study, found: dict, narrow: bool):
    styles, parts, reference = looks_of(study), slots_shown(found), reference_of(study, found)
    figure, axes = panels(narrow, len(parts), 1 if narrow else 3, 2.1 if narrow else 2.7,
                          sharey=True)  # fmt: skip
    for axis, (label, slot) in zip(axes, parts):
        plain = reference.slots.get(slot, {}).get("after")
        draw_slot(axis, found[label][slot], plain, styles[label].colour)
        axis.set_title(f"{shortened(label, 28)}, {slot.upper()}")
    legend_below(figure, similarity_keys(reference), narrow)
    return figure


def similarity_figure(study: Study) -> Figure:
    title = "Similarity of the heads before and after the map"
    found = {run.label: last_similarity(run) for run in study.first_runs()}
    if not slots_shown(found):
        single = "The values and keys of these models have a single head: no pair to compare."
        measured = any(run.heads for run in study.runs)
        return Figure("similarity", title, missing=single if measured else OLD)
    return Figure(
        "similarity",
        title,
        "Mean absolute cosine between two heads' features at the same position, over the pairs of "
        "heads of a layer and a fixed stretch of held-out text; 1: all heads point the same way. "
        "Q and K are taken ahead of the norm and the rotation." + only_first_seed(study),
        "Similarity by layer, before and after the map.",
        lambda narrow: draw_similarity(study, found, narrow),
        ["setting", "layer", "slot", "when", "mean |cosine|"],
        [
            [label, layer, slot, when, value]
            for label, slots in found.items()
            for slot, by_when in slots.items()
            for when, by_layer in by_when.items()
            for layer, value in sorted(by_layer.items())
        ],
    )


def moments_of(slots: list[dict]) -> list[tuple[dict, str]]:
    """Each slot of a layer with the moments it was measured at."""
    return [(slot, when) for slot in slots for when in ("before", "after") if when in slot]


def cosine_rows(run: Run, slots: list[dict]) -> list[list]:
    return [
        [run.label, slot["layer"], slot["slot"], when, i, j, value]
        for slot, when in moments_of(slots)
        for i, row in enumerate(slot[when]["mean"])
        for j, value in enumerate(row)
    ]


def cosine_pictures(slots: list[dict]) -> dict[str, list[Picture]]:
    """Of the slots with a map, or of the values where none has one."""
    mapped = {slot["slot"] for slot in slots if "before" in slot} or {"v"}
    rows: dict[str, list[Picture]] = {}
    for slot, when in moments_of(slots):
        if slot["slot"] not in mapped:
            continue
        letter = slot["slot"].upper()
        name = f"{letter} {when}" if "before" in slot else letter
        picture = Picture(f"layer {slot['layer']}", slot[when]["mean"])
        rows.setdefault(name, []).append(picture)
    return rows


def head_matrix(run: Run, rows: dict[str, list[Picture]], table: list[list]) -> Figure:
    return Figure(
        f"heads-{file_name(run.label)}",
        f"Which heads are alike: {run.name}",
        "Mean cosine (with its sign) between each two heads of a layer, before and after "
        f"the map, over {run.heads['positions']} positions of held-out text at step "
        f"{run.heads['step']}. Colours from -1 to 1.",
        f"Matrices of {', '.join(rows)} for each layer.",
        lambda narrow: draw_matrices(rows, 1.0, "mean cosine", narrow),
        ["setting", "layer", "slot", "when", "head", "other head", "mean cosine"],
        table,
        bitmap=True,
    )


def head_matrices(study: Study) -> list[Figure]:
    """Which heads are alike: the matrices of mean cosines of heads.json."""
    figures = []
    for run in study.first_runs():
        slots = [slot for slot in run.heads.get("slots", []) if slot["heads"] > 1]
        rows = cosine_pictures(slots)
        if rows:
            figures.append(head_matrix(run, rows, cosine_rows(run, slots)))
    return figures
