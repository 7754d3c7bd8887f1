"""Figures of the difference to the reference: over training, and at the end with its interval."""

from .figure import Figure, panels, shortened, tokens_axis
from .statistics import number
from .study import Difference, Study
from .study_looks import looks_of
from .style import INK, Look


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


def draw_differences(study: Study, differences: list[Difference], narrow: bool):
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


def intervals_in_words(differences: list[Difference]) -> str:
    """What the bands and the bars of the figure cover."""
    banded = [d for d in differences if sum(band is not None for band in d.bands) > 1]
    bars = [d for d in differences if d not in banded and d.final]
    band = f"Band: 95 % interval {covers_in_words(banded)}. " if banded else ""
    return band + (f"Bar at the end: 95 % interval {covers_in_words(bars)}. " if bars else "")


def difference_figure(study: Study) -> Figure:
    differences = [d for d in study.differences() if d.tokens]
    if not differences:
        return Figure("difference", "Difference over training", missing=no_difference(study))
    return Figure(
        "difference",
        "Difference over training",
        f"Validation loss less that of {references_of(study, differences)} at the same step and "
        "seed, in nats per token, against training tokens (logarithmic). Below 0 is better. "
        f"{intervals_in_words(differences)}"
        "The vertical range is that of the last nine tenths of the tokens.",
        "One panel for each setting: its validation loss less the reference's. At the last common "
        "step: " + ", ".join(f"{d.setting} {number(d.means[-1])}" for d in differences) + ".",
        lambda narrow: draw_differences(study, differences, narrow),
        ["setting", "reference", "tokens", "difference", "low", "high", "interval over"],
        [[d.setting, d.reference, int(at), mean, band and band.low, band and band.high, d.covers]
         for d in differences for at, mean, band in zip(d.tokens, d.means, d.bands)],
    )  # fmt: skip


def no_difference(study: Study) -> str:
    if not any(group.reference for group in study.groups):
        return (
            "There is nothing to compare with: no arm here is the reference of a comparison. "
            "`kha compare` trains a baseline beside it on the same data and seed."
        )
    return "No setting has an evaluation at the same step and seed as its reference yet."


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


def frame_intervals(axes, differences: list[Difference], references: str, narrow: bool) -> None:
    """Limits that leave room for the figures beside the intervals, and what the axes say."""
    span = span_of(differences)
    width = max(span) - min(span) or 0.01
    axes.set_xlim(min(span) - 0.06 * width, max(span) + (0.06 if narrow else 0.38) * width)
    axes.set_ylim(len(differences) - 0.5, -0.75 if narrow else -0.5)
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


def span_of(differences: list[Difference]) -> list[float]:
    return [0.0] + [edge for d in differences for edge in (d.final.low, d.final.high)]


def draw_intervals(study: Study, differences: list[Difference], narrow: bool):
    styles, span = looks_of(study), span_of(differences)
    height = (0.62 if narrow else 0.5) * len(differences) + 0.7
    figure, (axes,) = panels(narrow, 1, 1, height, 0.3)
    middle = (max(span) + min(span)) / 2
    for place, d in enumerate(differences):
        draw_interval(axes, place, d, styles[d.setting])
        name_interval(axes, place, d, narrow, d.final.mean > middle)
    frame_intervals(axes, differences, references_of(study, differences), narrow)
    return figure


def final_figure(study: Study) -> Figure:
    """The last difference of each setting with its interval: the answer in one picture."""
    differences = [d for d in study.differences() if d.final]
    title = "Difference at the end"
    if not differences:
        reason = no_difference(study)
        if any(d.tokens for d in study.differences()):
            reason = "No arm has finished beside its reference yet, so nothing is concluded."
        return Figure("final", title, missing=reason)
    figures = [f"{d.setting} {d.final.mean:+.4f} ({d.final.low:+.4f} to {d.final.high:+.4f})"
               for d in differences]  # fmt: skip
    return Figure(
        "final",
        title,
        f"Final validation loss less that of {references_of(study, differences)}, in nats per "
        f"token: mean and 95 % interval {covers_in_words(differences)}. Left of 0 is a lower loss.",
        "Differences with their intervals: " + "; ".join(figures) + ".",
        lambda narrow: draw_intervals(study, differences, narrow),
        ["setting", "reference", "difference", "low", "high", "interval over", "seeds"],
        [[d.setting, d.reference, d.final.mean, d.final.low, d.final.high, d.covers, d.seeds]
         for d in differences],
    )  # fmt: skip
