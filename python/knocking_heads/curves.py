"""Draws the loss curves of a run or of a comparison: ``kha curves RUN [--out FILE.png]``.

Reads ``metrics.jsonl`` of a run, or ``compare.json`` and the ``metrics.jsonl`` of every arm of a
comparison. Writes a picture and, beside it, a table with the same points. Losses are in nats per
token. Stands alone: importing it loads neither torch nor the operators.
"""

import argparse
import csv
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not as a package, which loads torch

from run_report.lines import GIVE_A_RUN, finite, read_json, read_lines  # noqa: E402
from run_report.lines import RunError as CurvesError  # noqa: E402
from run_report.runs import arms_of_entries  # noqa: E402
from run_report.statistics import smooth  # noqa: E402
from run_report.style import COLOURS, MARKERS  # noqa: E402

COLUMNS = ["arm", "seed", "tokens", "step", "train_loss", "val_loss"]


@dataclass
class Arm:
    """One run: its points in the order of the file, losses None where a line has none."""

    setting: str  # with variants "VARIANT: SETTING"
    seed: int | None
    reference: str = ""  # the setting that its losses are measured against
    points: list[dict] = field(default_factory=list)

    def series(self, key: str) -> tuple[list[float], list[float]]:
        kept = [(p["tokens"], p[key]) for p in self.points if p[key] is not None]
        return [tokens for tokens, _ in kept], [loss for _, loss in kept]


@dataclass
class Curves:
    name: str
    arms: list[Arm]
    differences: list[dict] = field(default_factory=list)

    def settings(self) -> list[str]:
        """In the order of the arms, the baseline first; with variants as they come."""
        names = list(dict.fromkeys(arm.setting for arm in self.arms))
        return sorted(names, key=lambda name: name != "baseline")

    def references(self) -> list[str]:
        return list(dict.fromkeys(arm.reference for arm in self.arms))


def read_points(path: Path) -> list[dict]:
    """The lines that carry a loss. A line without `tokens` stands where the last one did."""
    entries = read_lines(path)
    points, tokens, step = [], None, None
    for entry in entries:
        tokens, step = entry.get("tokens", tokens), entry.get("step", step)
        keys = {"train_loss": "train/loss", "val_loss": "val/loss"}
        losses = {column: finite(entry.get(key)) for column, key in keys.items()}
        if finite(tokens) is not None and any(loss is not None for loss in losses.values()):
            points.append({"tokens": tokens, "step": step, **losses})
    if not points:
        raise CurvesError(
            f"{path} has no losses: {len(entries)} lines, none with `tokens` and `train/loss` or "
            "`val/loss`\n  next: let the run reach its first log step"
        )
    return points


def name_of(variant: str, setting: str) -> str:
    return f"{variant}: {setting}" if variant else setting


def read_curves(folder: Path) -> Curves:
    """A comparison where the folder has compare.json, a single run otherwise."""
    if not folder.is_dir():
        raise CurvesError(f"there is no folder {folder}\n  next: {GIVE_A_RUN}")
    name = folder.resolve().name
    comparison = folder / "compare.json"
    if not comparison.is_file():
        return Curves(name, [Arm(name, None, name, read_points(folder / "metrics.jsonl"))])
    content = read_json(comparison.read_text(), str(comparison))
    runs = arms_of_entries(folder, content)
    arms = [
        Arm(name_of(run.variant, run.setting), run.seed, "", read_points(run.folder / "metrics.jsonl"))
        for run in runs
    ]
    names = sorted((arm.setting for arm in arms), key=lambda setting: setting != "baseline")
    for arm, run in zip(arms, runs):
        of_variant = name_of(run.variant, content.get("reference") or "baseline")
        arm.reference = of_variant if run.variant else names[0]
    differences = [
        {**entry, "setting": name_of(entry.get("variant") or "", entry.get("setting") or "")}
        for entry in content.get("differences") or []
        if isinstance(entry, dict)
    ]
    return Curves(name, arms, differences)


def paired_difference(arm: Arm, baseline: Arm) -> tuple[list[float], list[float]]:
    """Validation loss less the baseline's at the steps that both have."""
    base = {p["step"]: p["val_loss"] for p in baseline.points if p["val_loss"] is not None}
    pairs = [
        (p["tokens"], p["val_loss"] - base[p["step"]])
        for p in arm.points
        if p["val_loss"] is not None and p["step"] in base
    ]
    return [tokens for tokens, _ in pairs], [difference for _, difference in pairs]


def style_of(curves: Curves, setting: str) -> dict:
    index = curves.settings().index(setting)
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def loss_limits(shown: list[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """Leaves the first twentieth of the tokens out, whose fall would flatten all the rest."""
    end = max(tokens[-1] for tokens, _ in shown)
    late = [loss for series in shown for tokens, loss in zip(*series) if tokens >= end / 20]
    margin = 0.05 * (max(late) - min(late)) or 0.05
    return min(late) - margin, max(late) + margin


def draw_losses(axes, curves: Curves) -> None:
    shown, labelled = [], set()
    for arm in curves.arms:
        style = style_of(curves, arm.setting)
        label = arm.setting if arm.setting not in labelled else None
        labelled.add(arm.setting)
        tokens, losses = arm.series("train_loss")
        if tokens:
            axes.plot(tokens, losses, color=style["color"], alpha=0.15, linewidth=0.8)
            axes.plot(tokens, smooth(losses), color=style["color"], linewidth=2, label=label)
            shown.append((tokens, smooth(losses)))
        tokens_val, losses_val = arm.series("val_loss")
        if tokens_val:
            axes.plot(
                tokens_val,
                losses_val,
                linestyle="none",
                markersize=7,
                markeredgecolor="white",
                label=None if tokens else label,
                **style,
            )
            shown.append((tokens_val, losses_val))
    axes.set_ylim(*loss_limits(shown))
    axes.set_ylabel("loss (nats per token)")
    axes.set_title(
        "Training loss (line: running mean, faint: each step) and validation loss (points)"
    )
    axes.legend()


def draw_interval(axes, entry: dict, x: float, colour: str) -> str | None:
    """The interval of the last difference as a bar; returns what it is over."""
    mean, low, high = (finite(entry.get(key)) for key in ("mean", "low", "high"))
    if None in (mean, low, high):
        return None
    axes.plot([x, x], [low, high], color=colour, linewidth=2, marker="_", markersize=12)
    axes.plot([x], [mean], color=colour, marker="o", markersize=6)
    return entry.get("kind", "runs")


def draw_differences(axes, curves: Curves) -> None:
    references = curves.references()
    others = [name for name in curves.settings() if name not in references]
    baselines = {(arm.setting, arm.seed): arm for arm in curves.arms}
    end = max(arm.points[-1]["tokens"] for arm in curves.arms)
    kinds = set()
    axes.axhline(0, color="#666666", linewidth=1)
    for place, setting in enumerate(others, 1):
        style, label = style_of(curves, setting), setting
        for arm in curves.arms:
            if arm.setting == setting and (arm.reference, arm.seed) in baselines:
                axes.plot(
                    *paired_difference(arm, baselines[arm.reference, arm.seed]),
                    label=label,
                    linewidth=1.5,
                    **style,
                )
                label = None  # one entry in the legend for all seeds
        for entry in curves.differences:
            if entry.get("setting") == setting:
                kinds.add(draw_interval(axes, entry, end * (1 + 0.015 * place), style["color"]))
    over = ", ".join(sorted(kinds - {None}))
    bars = f"; bars: 95 % interval over {over} at the end" if over else ""
    of = references[0] if len(references) == 1 else "the same variant's reference"
    axes.set_title(
        f"Validation loss less that of {of}, same seed and step "
        f"(below 0 is better{bars})"
    )
    axes.set_ylabel("difference (nats per token)")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def draw(curves: Curves):
    """The picture, 1600 pixels wide: losses, and below them the differences of a comparison."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    panels = 2 if len(curves.settings()) > 1 else 1
    figure, axes = pyplot.subplots(
        panels,
        1,
        figsize=(16, 5 + 5 * (panels - 1)),
        dpi=100,
        sharex=True,
        squeeze=False,
        height_ratios=[3, 2][:panels],
        layout="constrained",
    )
    draw_losses(axes[0][0], curves)
    if panels == 2:
        draw_differences(axes[1][0], curves)
    for (panel,) in axes:
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.xaxis.set_major_formatter(EngFormatter())
    axes[-1][0].set_xlabel("training tokens")
    runs = f"{len(curves.arms)} runs" if len(curves.arms) > 1 else "1 run"
    figure.suptitle(f"{curves.name}: {runs}", fontsize=15, fontweight="bold")
    return figure


def write_table(curves: Curves, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for arm in curves.arms:
            writer.writerows(
                {"arm": arm.setting, "seed": arm.seed, **point} for point in arm.points
            )


def run(folder: Path, out: Path) -> None:
    if out.suffix not in {".png", ".svg", ".pdf"}:
        raise CurvesError(f"--out {out}: the name must end in .png, .svg or .pdf")
    curves = read_curves(folder)
    table = out.with_suffix(".csv")
    try:
        draw(curves).savefig(out)
        write_table(curves, table)
    except OSError as error:
        raise CurvesError(
            f"cannot write {error.filename or out}: {error.strerror}\n"
            "  next: give a file in a folder that is there with --out"
        ) from error
    print(f"kha curves: {out} and {table}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "kha curves", description="Draws the losses of a run or of a comparison."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help=GIVE_A_RUN)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="picture, .png, .svg or .pdf (RUN/curves.png); the table is written beside it",
    )
    options = parser.parse_args(arguments)
    try:
        run(options.run, options.out or options.run / "curves.png")
    except CurvesError as error:
        print(f"kha curves: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
