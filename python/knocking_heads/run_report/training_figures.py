"""Figures of training: loss, learning rate and gradient, speed and memory."""

from . import spikes
from .figure import Figure, gaps, log_axis, panels, tokens_axis
from .logged import COLUMNS, OLD, draw_raw_and_smooth, rows_of
from .runs import Run
from .study import Study
from .study_looks import legend_of, looks_of


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


def draw_loss(study: Study, narrow: bool):
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


def loss_figure(study: Study) -> Figure:
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
        lambda narrow: draw_loss(study, narrow),
        COLUMNS,
        rows_of(study, {"train/loss": "training loss", "val/loss": "validation loss"}),
    )


def draw_pair(study: Study, parts: list, narrow: bool):
    columns = 1 if narrow else 2
    figure, axes = panels(narrow, len(parts), columns, 2.6 if narrow else 3.4)
    for axis, (metric, name, unit, scale, log) in zip(axes, parts):
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


def pair_figure(study: Study, key: str, title: str, caption: str, parts: list) -> Figure:
    """Two panels of logged figures. `parts`: (metric, name, unit on the axis, scale, log?)."""
    there = [part for part in parts if any(run.series(part[0])[0] for run in study.runs)]
    if not there:
        return Figure(key, title, missing=OLD)
    rows = []
    for metric, name, _, scale, _ in there:
        rows += rows_of(study, {metric: name}, scale)
    names = " and ".join(name for _, name, *_ in there)
    return Figure(key, title, caption, f"{names} of {len(study.runs)} runs against tokens.",
                  lambda narrow: draw_pair(study, there, narrow), COLUMNS, rows)  # fmt: skip


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
