"""Figures of how far the maps have gone over training."""

import math
from dataclasses import dataclass

from .figure import Figure, file_name, gaps, legend_below, log_axis, panels, tokens_axis
from .logged import OLD
from .map_figures import NO_MAPS
from .runs import Run, Series
from .study import Study, only_first_seed
from .weights import Place

# Key of the metric, its name on the axis, and whether that is logarithmic.
KINDS = [
    ("kha/identity_distance", "distance from start", False),
    ("kha/condition", "condition number", True),
]


@dataclass
class Course:
    """One panel: a figure of one matrix, in each layer."""

    key: str
    unit: str
    log: bool
    place: Place
    layers: dict[int, Series]


def place_of(name: str) -> tuple[int, Place]:
    layer, slot, matrix = name.split(".")
    letter = {"T": "T", "up": "U", "gate": "G", "down": "W"}.get(matrix, matrix)
    return int(layer), Place(slot, letter)


def depth_colour(layer: int, layers: int):
    """Light to dark with depth; ends that white paper shows."""
    import matplotlib

    return matplotlib.colormaps["viridis_r"](0.12 + 0.85 * (layer / max(layers - 1, 1)))


def courses_of(run: Run) -> list[Course]:
    found: dict[tuple[str, Place], dict[int, Series]] = {}
    for key, _, _ in KINDS:
        for name, series in run.inner_series(key).items():
            layer, place = place_of(name)
            found.setdefault((key, place), {})[layer] = series
    places = list(dict.fromkeys(place for _, place in found))
    return [
        Course(key, unit, log, place, dict(sorted(found[key, place].items())))
        for key, unit, log in KINDS
        for place in places
        if (key, place) in found
    ]


def places_of(courses: list[Course]) -> list[Place]:
    return list(dict.fromkeys(course.place for course in courses))


def depth_of(courses: list[Course]) -> int:
    return 1 + max(layer for course in courses for layer in course.layers)


def draw_course(axis, course: Course, depth: int) -> None:
    shown = []
    for layer, (tokens, values) in course.layers.items():
        axis.plot(tokens, gaps(values), lw=1.5, color=depth_colour(layer, depth),
                  marker="." if len(tokens) < 3 else None)  # fmt: skip
        shown += [value for value in values if value is not None]
    axis.set_title(course.place.title)
    axis.set_ylabel(course.unit)
    tokens_axis(axis, tokens, log=False)
    if course.log:
        log_axis(axis.yaxis, shown)
    else:
        axis.set_ylim(bottom=0)


def layers_below(figure, depth: int, narrow: bool) -> None:
    """The legend: every layer, or some of a deep model's."""
    from matplotlib.lines import Line2D

    some = range(depth) if depth <= 12 else range(0, depth, math.ceil(depth / 8))
    keys = {
        f"layer {layer}": Line2D([], [], lw=2, color=depth_colour(layer, depth)) for layer in some
    }
    legend_below(figure, keys, narrow)


def draw_courses(courses: list[Course], narrow: bool):
    columns = 1 if narrow else min(3, len(places_of(courses)))
    figure, axes = panels(narrow, len(courses), columns, 2.2 if narrow else 2.6)
    depth = depth_of(courses)
    for axis, course in zip(axes, courses):
        draw_course(axis, course, depth)
    layers_below(figure, depth, narrow)
    return figure


def reach_in_words(courses: list[Course]) -> str:
    last = [
        values[-1]
        for course in courses
        for _, values in course.layers.values()
        if course.key == "kha/identity_distance" and values[-1] is not None
    ]
    return f" At the end the distances are {min(last):.3g} to {max(last):.3g}." if last else ""


def map_course(run: Run, study: Study) -> Figure | None:
    """Distance from the start and condition number of one run's maps over training."""
    courses = courses_of(run)
    if not courses:
        return None
    titles = ", ".join(place.title for place in places_of(courses))
    return Figure(
        f"map-course-{file_name(run.label)}",
        f"How far the maps have gone: {run.name}",
        "Above: distance from the start value, the Frobenius norm of M \u2212 I (of G itself) "
        "divided by the root of the head width. Below: condition number (largest by smallest "
        "singular value, logarithmic; a singular matrix is a gap). One line a layer, against "
        "training tokens." + only_first_seed(study),
        f"Curves for each layer of {titles}.{reach_in_words(courses)}",
        lambda narrow: draw_courses(courses, narrow),
        ["setting", "seed", "layer", "matrix", "what", "tokens", "value"],
        [
            [run.label, run.seed, layer, course.place.title, course.unit, int(at), value]
            for course in courses
            for layer, (tokens, values) in course.layers.items()
            for at, value in zip(tokens, values)
        ],
    )


def map_courses(study: Study) -> list[Figure]:
    figures = [map_course(run, study) for run in study.first_runs()]
    there = [figure for figure in figures if figure]
    only = all(run.setting == "baseline" for run in study.runs)
    return there or [Figure("map-course", "How far the maps have gone",
                            missing=NO_MAPS if only else OLD)]  # fmt: skip
