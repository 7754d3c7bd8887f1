"""Figures of what the maps have become and of how alike the heads are."""

import math
from dataclasses import dataclass

from .figure import Figure, gaps, legend_below, log_axis, panels, shortened, tokens_axis
from .runs import Run, Series
from .study import Study
from .style import QUIET, diverging_colours
from .training_figures import OLD, looks_of
from .weights import Maps, Place, read_maps

MOST_NUMBERS = 250_000  # of a table of whole matrices
NO_MAPS = "No run here has maps: there is only a baseline, which has nothing to learn there."


@dataclass
class Picture:
    """One matrix of a figure."""

    title: str
    matrix: object


def file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in label)


def draw_matrices(rows: dict[str, list[Picture]], limit: float, unit: str, narrow: bool):
    """Each row of pictures under its name, wrapped; one colour range, centred on 0.

    All pictures are one image: as axes of their own a deep model's hundreds would take minutes.
    """
    import numpy
    from matplotlib.patches import Rectangle

    from .figure import new_figure

    width = 3.9 if narrow else 10.8
    longest = max(len(pictures) for pictures in rows.values())
    columns = min(longest, 4 if narrow else 8)
    side = width / max(columns, 4 if narrow else 6) - 0.1  # of a picture, in inches
    above, between, foot = 0.26, 0.1, 0.7
    lines = sum(math.ceil(len(pictures) / columns) for pictures in rows.values())
    height = lines * (side + above) + foot
    figure = new_figure(narrow, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, foot / height, 1, 1 - foot / height))
    axes.set_axis_off()
    image, line = None, 0
    for name, pictures in rows.items():
        for place, picture in enumerate(pictures):
            x = (place % columns) * (side + between) + 0.03
            y = (line + place // columns) * (side + above) + above
            image = axes.imshow(numpy.asarray(picture.matrix), cmap=diverging_colours(),
                                vmin=-limit, vmax=limit, interpolation="nearest",
                                extent=(x, x + side, y + side, y), aspect="auto")  # fmt: skip
            axes.add_patch(Rectangle((x, y), side, side, fill=False, ec="#b4bcc6", lw=0.6))
            axes.text(x, y - 0.06, f"{name}, {picture.title}", fontsize="small", va="baseline")
        line += math.ceil(len(pictures) / columns)
    axes.set(xlim=(0, width), ylim=(height - foot, 0))
    length = width - 0.8 if narrow else 4.0
    bar_axes = figure.add_axes((0.35 / width, 0.27 / height, length / width, 0.12 / height))
    bar = figure.colorbar(image, cax=bar_axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize="small")
    bar.ax.set_title(unit, fontsize="small", fontweight="normal", pad=3)
    return figure


def limit_of(matrices: list, at_least: float = 0.0) -> float:
    """A range that a few outliers do not widen: 99.8 % of all values lie inside."""
    import numpy

    values = numpy.concatenate([abs(m).ravel() for m in matrices])
    values = values[numpy.isfinite(values)]
    return max(float(numpy.quantile(values, 0.998)) if len(values) else 0.0, at_least) or 1.0


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


def only_first_seed(study: Study) -> str:
    several = any(len(study.of_label(label)) > 1 for label in study.labels)
    return " Of several seeds the first is shown." if several else ""


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


def place_of(name: str) -> tuple[int, Place]:
    layer, slot, matrix = name.split(".")
    letter = {"T": "T", "up": "U", "gate": "G", "down": "W"}.get(matrix, matrix)
    return int(layer), Place(slot, letter)


def depth_colour(layer: int, layers: int):
    """Light to dark with depth; ends that white paper shows."""
    import matplotlib

    return matplotlib.colormaps["viridis_r"](0.12 + 0.85 * (layer / max(layers - 1, 1)))


def map_course(run: Run, study: Study) -> Figure | None:
    """Distance from the start and condition number of one run's maps over training."""
    kinds = [
        ("kha/identity_distance", "distance from start", False),
        ("kha/condition", "condition number", True),
    ]
    found: dict[tuple[str, Place], dict[int, Series]] = {}
    for key, _, _ in kinds:
        for name, series in run.inner_series(key).items():
            layer, place = place_of(name)
            found.setdefault((key, place), {})[layer] = series
    if not found:
        return None
    places = list(dict.fromkeys(place for _, place in found))
    depth = 1 + max(layer for by_layer in found.values() for layer in by_layer)
    parts = [(k, p) for k in kinds for p in places if (k[0], p) in found]

    def draw(narrow: bool):
        columns = 1 if narrow else min(3, len(places))
        figure, axes = panels(narrow, len(parts), columns, 2.2 if narrow else 2.6)
        for axis, ((key, unit, log), place) in zip(axes, parts):
            shown = []
            for layer, (tokens, values) in sorted(found[key, place].items()):
                axis.plot(tokens, gaps(values), lw=1.5, color=depth_colour(layer, depth),
                          marker="." if len(tokens) < 3 else None)  # fmt: skip
                shown += [value for value in values if value is not None]
            axis.set_title(place.title)
            axis.set_ylabel(unit)
            tokens_axis(axis, tokens, log=False)
            if log:
                log_axis(axis.yaxis, shown)
            else:
                axis.set_ylim(bottom=0)
        from matplotlib.lines import Line2D

        some = range(depth) if depth <= 12 else range(0, depth, math.ceil(depth / 8))
        keys = {
            f"layer {layer}": Line2D([], [], lw=2, color=depth_colour(layer, depth))
            for layer in some
        }
        legend_below(figure, keys, narrow)
        return figure

    rows = [
        [run.label, run.seed, layer, place.title, unit, int(at), value]
        for (key, unit, _), place in parts
        for layer, (tokens, values) in sorted(found[key, place].items())
        for at, value in zip(tokens, values)
    ]
    last = [
        values[-1]
        for (key, _), by_layer in found.items()
        for _, values in by_layer.values()
        if key == "kha/identity_distance" and values[-1] is not None
    ]
    reach = f" At the end the distances are {min(last):.3g} to {max(last):.3g}." if last else ""
    return Figure(
        f"map-course-{file_name(run.label)}",
        f"How far the maps have gone: {run.name}",
        "Above: distance from the start value, the Frobenius norm of M \u2212 I (of G itself) "
        "divided by the root of the head width. Below: condition number (largest by smallest "
        "singular value, logarithmic; a singular matrix is a gap). One line a layer, against "
        "training tokens."
        + only_first_seed(study),
        f"Curves for each layer of {', '.join(place.title for place in places)}.{reach}",
        draw,
        ["setting", "seed", "layer", "matrix", "what", "tokens", "value"],
        rows,
    )


def map_courses(study: Study) -> list[Figure]:
    figures = [map_course(run, study) for run in study.first_runs()]
    there = [figure for figure in figures if figure]
    only = all(run.setting == "baseline" for run in study.runs)
    return there or [Figure("map-course", "How far the maps have gone",
                            missing=NO_MAPS if only else OLD)]  # fmt: skip


def last_similarity(run: Run) -> dict[str, dict[str, dict[int, float]]]:
    """slot -> "before" / "after" -> layer -> mean |cosine|, of the last line that has it."""
    found: dict = {}
    for name, (_, values) in run.inner_series("heads/similarity").items():
        layer, slot, when = name.split(".")
        if values[-1] is not None:
            found.setdefault(slot, {}).setdefault(when, {})[int(layer)] = values[-1]
    return found


def similarity_figure(study: Study) -> Figure:
    title = "Similarity of the heads before and after the map"
    found = {run.label: last_similarity(run) for run in study.first_runs()}
    parts = []
    for label, slots in found.items():
        mapped = [slot for slot in "qkv" if "before" in slots.get(slot, {})]
        parts += [(label, slot) for slot in mapped or "v" if slot in slots]
    if not parts:
        single = "The values and keys of these models have a single head: no pair to compare."
        measured = any(run.heads for run in study.runs)
        return Figure("similarity", title, missing=single if measured else OLD)
    references = [run for group in study.groups if group.reference for run in group.runs
                  if run.setting == group.reference]  # fmt: skip
    base = found.get(references[0].label, {}) if references else {}

    def draw(narrow: bool):
        from matplotlib.lines import Line2D

        styles = looks_of(study)
        figure, axes = panels(narrow, len(parts), 1 if narrow else 3, 2.1 if narrow else 2.7,
                              sharey=True)  # fmt: skip
        for axis, (label, slot) in zip(axes, parts):
            values, colour = found[label][slot], styles[label].colour
            other = base.get(slot, {}).get("after")
            if other and "before" in values:
                axis.plot(*zip(*sorted(other.items())), color="#8b949e", lw=1, ls=(0, (2, 2)))
            if "before" in values:
                axis.plot(*zip(*sorted(values["before"].items())), color=colour, lw=1.2,
                          ls=(0, (4, 2)), marker="o", mfc="white", markersize=6)  # fmt: skip
            axis.plot(*zip(*sorted(values["after"].items())), color=colour, lw=1.8, marker="o",
                      markersize=6)  # fmt: skip
            axis.set_title(f"{shortened(label, 28)}, {slot.upper()}")
            axis.set_xlabel("layer")
            axis.set_ylim(0, 1)
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_ylabel("mean |cosine|")
        keys = {
            "before the map": Line2D([], [], color=QUIET, ls=(0, (4, 2)), marker="o", mfc="white"),
            "after it (without a map: as it is)": Line2D([], [], color=QUIET, marker="o"),
        }
        if base:
            name = shortened(references[0].label, 24)
            keys[f"{name}, same slot"] = Line2D([], [], color="#8b949e", ls=(0, (2, 2)))
        legend_below(figure, keys, narrow)
        return figure

    rows = [
        [label, layer, slot, when, value]
        for label, slots in found.items()
        for slot, by_when in slots.items()
        for when, by_layer in by_when.items()
        for layer, value in sorted(by_layer.items())
    ]
    return Figure(
        "similarity",
        title,
        "Mean absolute cosine between two heads' features at the same position, over the pairs of "
        "heads of a layer and a fixed stretch of held-out text; 1: all heads point the same way. "
        "Q and K are taken ahead of the norm and the rotation." + only_first_seed(study),
        "Similarity by layer, before and after the map.",
        draw,
        ["setting", "layer", "slot", "when", "mean |cosine|"],
        rows,
    )


def head_matrices(study: Study) -> list[Figure]:
    """Which heads are alike: the matrices of mean cosines of heads.json."""
    figures = []
    for run in study.first_runs():
        slots = [slot for slot in run.heads.get("slots", []) if slot["heads"] > 1]
        mapped = {slot["slot"] for slot in slots if "before" in slot} or {"v"}
        rows: dict[str, list[Picture]] = {}
        table = []
        for slot in slots:
            for when in ("before", "after"):
                if when not in slot:
                    continue
                mean = slot[when]["mean"]
                table += [[run.label, slot["layer"], slot["slot"], when, i, j, value]
                          for i, row in enumerate(mean) for j, value in enumerate(row)]  # fmt: skip
                if slot["slot"] in mapped:
                    words = f"{slot['slot'].upper()} {when}"
                    name = words if "before" in slot else f"{slot['slot'].upper()}"
                    rows.setdefault(name, []).append(Picture(f"layer {slot['layer']}", mean))
        if not rows:
            continue
        figures.append(
            Figure(
                f"heads-{file_name(run.label)}",
                f"Which heads are alike: {run.name}",
                "Mean cosine (with its sign) between each two heads of a layer, before and after "
                f"the map, over {run.heads['positions']} positions of held-out text at step "
                f"{run.heads['step']}. Colours from -1 to 1.",
                f"Matrices of {', '.join(rows)} for each layer.",
                lambda narrow, rows=rows: draw_matrices(rows, 1.0, "mean cosine", narrow),
                ["setting", "layer", "slot", "when", "head", "other head", "mean cosine"],
                table,
                bitmap=True,
            )
        )
    return figures


