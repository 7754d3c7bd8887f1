"""Figures of training: loss, difference, learning rate and gradient, speed and memory."""

from . import spikes
from .figure import Figure, gaps, legend_below, log_axis, panels, shortened, tokens_axis
from .runs import Run
from .statistics import number, smooth_between_gaps
from .study import Difference, Group, Study
from .style import INK, Look, looks, looks_of_variants

OLD = "These runs have not logged it: an older kha wrote them, or they had not come so far."


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


COLUMNS = ["setting", "seed", "tokens", "what", "value", "smoothed"]


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


def mark_spikes(axes, study: Study) -> list[float]:
    """A cross at the peak of each event; returns their losses."""
    styles, peaks = looks_of(study), []
    for run in study.runs:
        tokens, values = run.series("train/loss")
        for event in spikes.events_of(run):
            if event["height"] is None:
                continue
            # The logged step at the peak or the next one behind it: tokens are known at these.
            place = next((i for i, at in enumerate(run.steps_of("train/loss")) if at >= event["peak"]),
                         None)  # fmt: skip
            if place is None or values[place] is None:
                continue
            peaks.append(event["loss_before"] + event["height"])
            axes.plot([tokens[place]], peaks[-1:], marker="x", markersize=6, mew=1.6,
                      color=styles[run.label].colour, linestyle="none", gid="spike")  # fmt: skip
    return peaks


def draw_validation(axes, study: Study) -> tuple[list, list]:
    styles, shown_tokens, shown = looks_of(study), [], []
    for run in study.runs:
        tokens, values = run.series("val/loss")
        look = styles[run.label]
        size = 5 if len(study.runs) <= 6 else 3
        axes.plot(
            tokens, gaps(values), lw=1.3, marker=look.marker, markersize=size, mec="white",
            mew=0.5, **look.line(),
        )  # fmt: skip
        shown_tokens += tokens
        shown += [value for value in values if value is not None]
    return shown_tokens, shown


def loss_figure(study: Study) -> Figure:
    def draw(narrow: bool):
        figure, (train, validation) = panels(narrow, 2, 1 if narrow else 2, 3.1 if narrow else 4.2)
        peaks = mark_spikes(train, study)
        for axes, title, (tokens, values) in (
            (train, "training", draw_raw_and_smooth(train, study, "train/loss")),
            (validation, "validation", draw_validation(validation, study)),
        ):
            axes.set_title(title)
            tokens_axis(axes, tokens)
            log_axis(axes.yaxis, values + peaks if axes is train else values)
            axes.set_ylabel("loss (nats per token)")
            if not values:
                axes.text(0.5, 0.5, "none logged", transform=axes.transAxes, ha="center")
        legend_of(figure, study, narrow, marker=True)
        return figure

    ends = [
        f"{run.name} {run.validation_loss:.4f}" for run in study.runs if run.validation_loss
    ]
    return Figure(
        "loss",
        "Loss",
        "Loss in nats per token against training tokens, both axes logarithmic. Training: thin is "
        "each logged step, thick a running mean, a cross the peak of a loss spike. Validation: "
        "every evaluation, no smoothing.",
        "Two panels of falling curves, training and validation loss against tokens. "
        + (f"Validation loss at the end: {', '.join(ends)}." if ends else "No validation loss."),
        draw,
        COLUMNS,
        rows_of(study, {"train/loss": "training loss", "val/loss": "validation loss"}),
    )


def references_of(study: Study, differences: list[Difference]) -> str:
    names = list(dict.fromkeys(d.reference for d in differences))
    settings = list(dict.fromkeys(group.reference for group in study.variants if group.reference))
    if len(names) > 1 and len(study.variants) == len(study.groups):
        return f"{', '.join(settings)} of the same variant"
    return ", ".join(names)


def covers_in_words(differences: list[Difference]) -> str:
    seeds = sorted({d.seeds for d in differences if d.covers == "seeds"})
    parts = []
    if seeds:
        parts.append(f"over {' or '.join(map(str, seeds))} seeds")
    if any(d.covers == "documents" for d in differences):
        parts.append("over documents (of one seed: training noise is not in it)")
    return " and ".join(parts)


def draw_one_difference(axes, d: Difference, look: Look, letters: int) -> None:
    axes.axhline(0, color="#000000", lw=1)
    axes.plot(d.tokens, d.means, lw=1.8, marker=look.marker, markersize=4, mec="white", mew=0.4,
              **look.line())  # fmt: skip
    banded = [(at, band) for at, band in zip(d.tokens, d.bands) if band]
    if len(banded) > 1:
        at = [tokens for tokens, _ in banded]
        low, high = [b.low for _, b in banded], [b.high for _, b in banded]
        axes.fill_between(at, low, high, color=look.colour, alpha=0.18, lw=0)
    elif d.final:
        axes.errorbar(d.tokens[-1:], [d.final.mean],
                      [[d.final.mean - d.final.low], [d.final.high - d.final.mean]],
                      color=look.colour, capsize=4, lw=1.6)  # fmt: skip
    axes.set_title(shortened(d.setting, letters))


def limits_of(differences: list[Difference]) -> tuple[float, float] | None:
    """Of what lies behind the first tenth of the tokens, whose swings would flatten the rest."""
    shown = [0.0]
    for d in differences:
        for at, mean, band in zip(d.tokens, d.means, d.bands):
            if at >= d.tokens[-1] / 10:
                shown += [mean] + ([band.low, band.high] if band else [])
        shown += [d.final.low, d.final.high] if d.final else []
    margin = 0.08 * (max(shown) - min(shown))
    return (min(shown) - margin, max(shown) + margin) if margin else None


def difference_figure(study: Study) -> Figure:
    differences = [d for d in study.differences() if d.tokens]
    if not differences:
        return Figure("difference", "Difference over training", missing=no_difference(study))
    references = references_of(study, differences)

    def draw(narrow: bool):
        styles = looks_of(study)
        columns = (1 if len(differences) < 5 else 2) if narrow else min(3, len(differences))
        height = 2.5 if narrow else (4.0 if len(differences) < 4 else 2.7)
        figure, axes = panels(narrow, len(differences), columns, height, sharey=True)
        for axis, d in zip(axes, differences):
            letters = (36 if columns == 1 else 19) if narrow else 34
            draw_one_difference(axis, d, styles[d.setting], letters)
            tokens_axis(axis, d.tokens)
        limits = limits_of(differences)
        if limits:
            axes[0].set_ylim(*limits)
        for axis in axes[::columns]:
            axis.set_ylabel("nats per token")
        return figure

    rows = [
        [d.setting, d.reference, int(at), mean, band and band.low, band and band.high, d.covers]
        for d in differences
        for at, mean, band in zip(d.tokens, d.means, d.bands)
    ]
    banded = [d for d in differences if sum(band is not None for band in d.bands) > 1]
    band = f"Band: 95 % interval {covers_in_words(banded)}. " if banded else ""
    bars = [d for d in differences if d not in banded and d.final]
    bar = f"Bar at the end: 95 % interval {covers_in_words(bars)}. " if bars else ""
    return Figure(
        "difference",
        "Difference over training",
        f"Validation loss less that of {references} at the same step and seed, in nats "
        f"per token, against training tokens (logarithmic). Below 0 is better. {band}{bar}"
        "The vertical range is that of the last nine tenths of the tokens.",
        "One panel for each setting: its validation loss less the reference's. At the last common "
        "step: " + ", ".join(f"{d.setting} {number(d.means[-1])}" for d in differences) + ".",
        draw,
        ["setting", "reference", "tokens", "difference", "low", "high", "interval over"],
        rows,
    )


def no_difference(study: Study) -> str:
    if not any(group.reference for group in study.groups):
        return (
            "There is nothing to compare with: no arm here is the reference of a comparison. "
            "`kha compare` trains a baseline beside it on the same data and seed."
        )
    return "No setting has an evaluation at the same step and seed as its reference yet."


def pair_figure(study: Study, key: str, title: str, caption: str, parts: list) -> Figure:
    """Two panels of logged figures. `parts`: (metric, name, unit on the axis, scale, log?)."""
    there = [part for part in parts if any(run.series(part[0])[0] for run in study.runs)]
    if not there:
        return Figure(key, title, missing=OLD)

    def draw(narrow: bool):
        columns = 1 if narrow else 2
        figure, axes = panels(narrow, len(there), columns, 2.6 if narrow else 3.4)
        for axis, (metric, name, unit, scale, log) in zip(axes, there):
            tokens, values = draw_raw_and_smooth(axis, study, metric, scale)
            axis.set_title(name)
            axis.set_ylabel(unit)
            tokens_axis(axis, tokens, log=False)
            if log:
                log_axis(axis.yaxis, values)
            else:
                axis.set_ylim(bottom=0)
        legend_of(figure, study, narrow)
        return figure

    rows = []
    for metric, name, _, scale, _ in there:
        rows += rows_of(study, {metric: name}, scale)
    names = " and ".join(name for _, name, *_ in there)
    return Figure(key, title, caption, f"{names} of {len(study.runs)} runs against tokens.", draw,
                  COLUMNS, rows)  # fmt: skip


def rate_figure(study: Study) -> Figure:
    return pair_figure(
        study,
        "rate",
        "Learning rate and gradient norm",
        "Learning rate, and Euclidean norm of the gradient before clipping (logarithmic), against "
        "training tokens. Thin: each logged step; thick: running mean.",
        [("lr", "learning rate", "learning rate", 1.0, False),
         ("grad_norm", "gradient norm", "norm", 1.0, True)],
    )  # fmt: skip


def machine_of(runs: list[Run]) -> str:
    cpus = list(dict.fromkeys(filter(None, (run.fact("cpu") for run in runs))))
    return f" Measured on {', '.join(cpus)}." if cpus else ""


def speed_figure(study: Study) -> Figure:
    return pair_figure(
        study,
        "speed",
        "Speed and memory",
        "Training tokens a second, and resident memory of the process in GB (10^9 bytes), against "
        "training tokens. Thin: each logged step; thick: running mean. Evaluation and saving are "
        f"not in it.{machine_of(study.runs)}",
        [("tps", "speed", "tokens per second", 1.0, False),
         ("memory", "memory", "resident memory (GB)", 1e-9, False)],
    )  # fmt: skip


def draw_interval(axes, place: int, d: Difference, look: Look) -> None:
    f = d.final
    axes.plot([f.low, f.high], [place, place], color=look.colour, lw=3.5, alpha=0.45,
              solid_capstyle="butt")  # fmt: skip
    axes.plot([f.mean], [place], marker=look.marker, markersize=8, color=look.colour)


def name_interval(axes, place: int, d: Difference, narrow: bool, right: bool) -> None:
    """The figures beside the interval; on a phone above it, with the name, within the picture."""
    f = d.final
    if narrow:
        words = f"{shortened(d.setting, 30)}: {number(f.mean)}"
        at, side, shift = (f.high, "right", (0, 9)) if right else (f.low, "left", (0, 9))
    else:
        words = f"{number(f.mean)} ({number(f.low)} to {number(f.high)})"
        at, side, shift = f.high, "left", (10, -4)
    axes.annotate(words, (at, place), xytext=shift, textcoords="offset points", ha=side,
                  bbox={"fc": "white", "ec": "none", "pad": 1.5})  # fmt: skip


def final_figure(study: Study) -> Figure:
    """The last difference of each setting with its interval: the answer in one picture."""
    differences = [d for d in study.differences() if d.final]
    title = "Difference at the end"
    if not differences:
        reason = no_difference(study)
        if any(d.tokens for d in study.differences()):
            reason = "No arm has finished beside its reference yet, so nothing is concluded."
        return Figure("final", title, missing=reason)
    references = references_of(study, differences)

    def draw(narrow: bool):
        styles = looks_of(study)
        count = len(differences)
        figure, (axes,) = panels(narrow, 1, 1, (0.62 if narrow else 0.5) * count + 0.7, 0.3)
        span = [0.0] + [edge for d in differences for edge in (d.final.low, d.final.high)]
        width = max(span) - min(span) or 0.01
        middle = (max(span) + min(span)) / 2
        for place, d in enumerate(differences):
            draw_interval(axes, place, d, styles[d.setting])
            name_interval(axes, place, d, narrow, d.final.mean > middle)
        axes.set_xlim(min(span) - 0.06 * width, max(span) + (0.06 if narrow else 0.38) * width)
        axes.set_ylim(count - 0.5, -0.75 if narrow else -0.5)
        axes.axvline(0, color="#000000", lw=1, zorder=0.9)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        names = [] if narrow else [shortened(d.setting, 40) for d in differences]
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(
            "← lower loss · nats per token · higher →" if narrow
            else f"← lower loss than {shortened(references, 40)} · difference in nats per token · "
            "higher loss →"
        )  # fmt: skip
        return figure

    figures = [f"{d.setting} {d.final.mean:+.4f} ({d.final.low:+.4f} to {d.final.high:+.4f})"
               for d in differences]  # fmt: skip
    return Figure(
        "final",
        title,
        f"Final validation loss less that of {references}, in nats per token: mean and 95 % "
        f"interval {covers_in_words(differences)}. Left of 0 is a lower loss.",
        "Differences with their intervals: " + "; ".join(figures) + ".",
        draw,
        ["setting", "reference", "difference", "low", "high", "interval over", "seeds"],
        [[d.setting, d.reference, d.final.mean, d.final.low, d.final.high, d.covers, d.seeds]
         for d in differences],
    )  # fmt: skip


