"""Loss of every arm over the tokens, and differences from the baseline with their intervals."""

import statistics

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter  # noqa: E402

from evidence.document import finite_interval  # noqa: E402
from evidence.judge import judge, main_runs, whole  # noqa: E402

# The eight colours of Okabe and Ito, told apart with any kind of colour vision.
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00", "#F0E442"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]


def panels(plan):
    """{about: arms beside the baseline} of the orderings, in the plan's order."""
    groups = {}
    for ordering in plan.orderings:
        for arm in (ordering.lower, ordering.higher):
            if arm != "baseline" and arm not in groups.setdefault(ordering.about, []):
                groups[ordering.about].append(arm)
    return groups


def mean_curve(results, arm):
    """Mean loss over the whole runs at the tokens that all of them share."""
    runs = [dict(map(tuple, run["points"])) for run in main_runs(results, arm).values()
            if whole(run)]
    shared = sorted(set.intersection(*map(set, runs))) if runs else []
    return shared, [statistics.mean(run[tokens] for run in runs) for tokens in shared]


def draw_losses(axes, plan, results):
    for index, arm in enumerate(plan.arms):
        tokens, losses = mean_curve(results, arm)
        if tokens:
            axes.plot(tokens, losses, label=arm, color=COLOURS[index % len(COLOURS)],
                      linestyle="-" if index < len(COLOURS) else "--", linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("validation loss, mean over seeds", fontsize=9)
    axes.set_ylabel("nats a token")
    axes.legend(fontsize=6)


def draw_differences(axes, plan, results, about, arms):
    axes.axhline(0, color="#666666", linewidth=0.8)
    for place, arm in enumerate(arms):
        index = list(plan.arms).index(arm)  # as in the panel of the losses
        judgement = judge(results, "baseline", arm)
        curve = [(tokens, each) for tokens, each in judgement.curve if finite_interval(each)]
        if not curve:
            continue
        tokens = [point[0] for point in curve]
        colour, means = COLOURS[index % len(COLOURS)], [each.mean for _, each in curve]
        line = "-" if index < len(COLOURS) else "--"
        axes.plot(tokens, means, color=colour, linewidth=1.2, linestyle=line,
                  marker=MARKERS[index % len(MARKERS)], markersize=3,
                  label=f"{arm} ({curve[-1][1].pairs} pairs)")
        # Beside each other, since bars of several arms in one place hide each other.
        beside = (place - (len(arms) - 1) / 2) * 0.008 * tokens[-1]
        axes.errorbar([each + beside for each in tokens], means, fmt="none", ecolor=colour,
                      yerr=[each.high - each.mean for _, each in curve], elinewidth=0.9, alpha=0.7)
    axes.set_title(f"{about}: loss less the baseline's, same seed; below 0 is better", fontsize=9)
    axes.set_ylabel("nats a token")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)
        limit_to_means(axes)
    else:
        axes.text(0.5, 0.5, "no arm has two pairs", transform=axes.transAxes, ha="center")


def limit_to_means(axes):
    """Wide early bars of three seeds would press the lines flat; the view follows the means."""
    values = [value for line in axes.get_lines() for value in line.get_ydata()]
    half = max(map(abs, values))
    low, high = min(values), max(values)
    if half:
        axes.set_ylim(low - 0.4 * half, high + 0.4 * half)


def draw(plan, results):
    groups = panels(plan)
    figure, axes = pyplot.subplots(-(-(1 + len(groups)) // 2), 2, figsize=(11, 7.5), squeeze=False,
                                   layout="constrained")
    flat = list(axes.flat)
    for unused in flat[1 + len(groups):]:
        unused.set_visible(False)
    draw_losses(flat[0], plan, results)
    for panel, (about, arms) in zip(flat[1:], groups.items()):
        draw_differences(panel, plan, results, about, arms)
    for panel in flat:
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.xaxis.set_major_formatter(EngFormatter())
        panel.set_xlabel("training tokens")
    flat[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    figure.suptitle(f"{plan.name}: bars are 95 % intervals over seeds; commit "
                    f"{results['facts']['commit']}", fontsize=9)
    return figure


def write(plan, results, path):
    figure = draw(plan, results)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
