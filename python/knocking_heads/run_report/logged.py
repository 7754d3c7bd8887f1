"""What the runs of a study logged against their tokens: as curves and as rows."""

from .figure import gaps
from .statistics import smooth_between_gaps
from .study import Study
from .study_looks import looks_of

OLD = "These runs have not logged it: an older kha wrote them, or they had not come so far."
COLUMNS = ["setting", "seed", "tokens", "what", "value", "smoothed"]


def rows_of(study: Study, keys: dict[str, str], scale: float = 1.0) -> list[list]:
    """setting, seed, tokens, what, value, smoothed."""
    rows = []
    for run in study.runs:
        for key, name in keys.items():
            tokens, values = run.series(key)
            exact = key in ("val/loss", "lr")
            smoothed = [None] * len(values) if exact else smooth_between_gaps(values)
            for at, value, mean in zip(tokens, values, smoothed):
                scaled = [None if v is None else v * scale for v in (value, mean)]
                rows.append([run.label, run.seed, int(at), name, *scaled])
    return rows


def draw_raw_and_smooth(axes, study: Study, key: str, scale: float = 1.0) -> tuple[list, list]:
    """Every run of the study; returns all tokens and all values drawn."""
    styles, shown_tokens, shown = looks_of(study), [], []
    faint = 0.3 if len(study.runs) <= 6 else 0.12
    for run in study.runs:
        tokens, values = run.series(key)
        values = [None if value is None else value * scale for value in values]
        line = styles[run.label].line()
        if key == "lr":  # known exactly; a mean would bend its corners
            axes.plot(tokens, gaps(values), lw=1.7, **line)
        else:
            axes.plot(tokens, gaps(values), color=line["color"], alpha=faint, lw=0.7)
            axes.plot(tokens, gaps(smooth_between_gaps(values)), lw=1.7, **line)
        shown_tokens += tokens
        shown += [value for value in values if value is not None]
    return shown_tokens, shown
