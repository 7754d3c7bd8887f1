"""How each setting of a study looks: the same in every figure."""

from .figure import legend_below
from .study import Group, Study
from .style import Look, looks, looks_of_variants


def labels_of(group: Group) -> list[str]:
    return list(dict.fromkeys(run.label for run in group.runs))


def reference_of(group: Group) -> str:
    """The label of the reference, empty where there is none."""
    return next((run.label for run in group.runs if run.setting == group.reference), "")


def looks_of(study: Study) -> dict[str, Look]:
    if study.variants and len(study.variants) == len(study.groups):
        return looks_of_variants([(labels_of(group), reference_of(group)) for group in study.groups])
    groups = [group for group in study.groups if group.reference]
    references = [
        run.label for group in groups for run in group.runs if run.setting == group.reference
    ]
    return looks(study.labels, references[0] if references else "")


def line_key(look: Look, marker: bool = False):
    from matplotlib.lines import Line2D

    return Line2D([], [], lw=2, marker=look.marker if marker else None, markersize=5, **look.line())


def legend_of(figure, study: Study, narrow: bool, marker: bool = False) -> None:
    styles = looks_of(study)
    legend_below(figure, {name: line_key(styles[name], marker) for name in study.labels}, narrow)
