"""The figure of loss spikes: events of each setting with their interval and the exact test."""

from .figure import Figure, new_figure, shortened
from .spikes import ArmSpikes, arms_of, in_words, inspected
from .study import Study
from .study_looks import looks_of
from .style import INK

COLUMNS = ["setting", "runs", "events", "steps judged", "events per 1000 steps", "low", "high",
           "exact test p", "against", "mean height (nats)", "mean recovery (steps)",
           "OLMo 2 spike score (%)", "OLMo-core rate (%)"]  # fmt: skip
TITLE = "Loss spikes"


def why_missing(study: Study) -> str:
    said = [known for run in study.runs if isinstance(known := inspected(run.folder), str)]
    if said:
        return said[0]
    return (
        "Spikes are judged against the 50 to 200 steps before them, and these runs have logged too "
        "few behind the warm-up."
    )


def beside(arm: ArmSpikes, narrow: bool) -> str:
    count = f"{arm.events} in {arm.steps:,} steps"
    test = f", p = {arm.p:.2g}" if arm.p is not None else ""
    return f"{shortened(arm.label, 24)}: {count}{test}" if narrow else f"{count}{test}"


def draw_arm(axes, place: int, arm: ArmSpikes, look, narrow: bool) -> None:
    low, high = arm.interval
    axes.plot([low, high], [place, place], color=look.colour, lw=3.5, alpha=0.45,
              solid_capstyle="butt")  # fmt: skip
    axes.plot([arm.rate], [place], marker=look.marker, markersize=8, color=look.colour,
              clip_on=False)  # fmt: skip
    at, shift = (0, (0, 9)) if narrow else (high, (10, -4))
    axes.annotate(beside(arm, narrow), (at, place), xytext=shift, textcoords="offset points",
                  bbox={"fc": "white", "ec": "none", "pad": 1.5})  # fmt: skip


def caption_of(arms: list[ArmSpikes]) -> str:
    tested = sorted({arm.against for arm in arms if arm.p is not None})
    test = (
        f" p: exact two-sided binomial test against {', '.join(tested)}, all seeds together."
        if tested
        else ""
    )
    stride = max(arm.stride for arm in arms)
    sparse = (
        f" Some runs logged every {stride}th step only: what lay between is not seen."
        if stride > 1
        else ""
    )
    return (
        "Events in 1,000 steps behind the warm-up, with the exact 95 % interval of a count (for no "
        "event the rule of three). An event is a loss above the median of the 200 steps before it "
        "by more than 0.05 nats and 8 times their scatter (1.4826 MAD); exceedances within 10 "
        f"steps are one.{test}{sparse} The published scores are in the table (CSV)."
    )


def row_of(arm: ArmSpikes) -> list:
    low, high = arm.interval
    scores = [sum(values) / len(values) if values else None
              for values in (arm.olmo2, arm.olmo_core)]  # fmt: skip
    return [arm.label, arm.runs, arm.events, arm.steps, arm.rate, low, high, arm.p, arm.against,
            arm.height, arm.recovery, *scores]  # fmt: skip


def spike_figure(study: Study) -> Figure:
    arms = [arm for arm in arms_of(study) if arm.steps]
    if not arms:
        return Figure("spikes", TITLE, missing=why_missing(study))

    def draw(narrow: bool):
        styles = looks_of(study)
        figure = new_figure(narrow, (0.62 if narrow else 0.5) * len(arms) + 1.0)
        axes = figure.subplots()
        for place, arm in enumerate(arms):
            draw_arm(axes, place, arm, styles[arm.label], narrow)
        most = max(arm.interval[1] for arm in arms)
        axes.set_xlim(-0.015 * most, most * (1.06 if narrow else 1.5))
        axes.set_ylim(len(arms) - 0.5, -0.75 if narrow else -0.5)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        names = [] if narrow else [shortened(arm.label, 40) for arm in arms]
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("events in 1,000 steps")
        return figure

    return Figure(
        "spikes",
        TITLE,
        caption_of(arms),
        "Spike events of each setting: " + "; ".join(map(in_words, arms)) + ".",
        draw,
        COLUMNS,
        [row_of(arm) for arm in arms],
    )
