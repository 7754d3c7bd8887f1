"""The result as a picture: shares of the ceiling, ratios, scaling. PNG and SVG."""

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

from bench.shapes import DIM  # noqa: E402

# Okabe and Ito's colours, which colour-blind readers tell apart, and a hatch each for print.
STYLE = {"ours": ("#0072B2", ""), "torch eager": ("#E69F00", "//"),
         "torch.compile": ("#009E73", ".."), "kha": ("#0072B2", ""),
         "baseline": ("#0072B2", ""), "kha-linear": ("#56B4E9", "//"),
         "kha-mlp": ("#CC79A7", ".."), "transformers": ("#E69F00", "//"),
         "transformers, memory kept": ("#D55E00", "..")}

ROOM = 1.2  # times the height of the highest bar: the legend stands above it


def bars(axes, labels, series, ylabel):
    """Groups of bars: `series` maps a contender to a value or None for each label."""
    width = 0.8 / max(len(series), 1)
    for index, (name, values) in enumerate(series.items()):
        colour, hatch = STYLE[name]
        at = [i + (index - (len(series) - 1) / 2) * width for i in range(len(labels))]
        axes.bar(at, [value or 0 for value in values], width, label=name, color=colour,
                 hatch=hatch, edgecolor="white")
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=7)
    axes.set_ylabel(ylabel)
    axes.set_ylim(0, ROOM * axes.get_ylim()[1])
    axes.legend(fontsize=7, loc="upper left", ncols=3)


def draw_shares(axes, part, run, threads):
    rows = [row for row in part["rows"]
            if row["pass"] == run and row["threads"] == threads and not row["decode"]]
    labels = list(dict.fromkeys(row["case"] for row in rows))
    series = {}
    for name in dict.fromkeys(row["contender"] for row in rows):
        of = {row["case"]: row["share_of_ceiling"] for row in rows if row["contender"] == name}
        series[name] = [of.get(label) for label in labels]
    bars(axes, labels, series, "share of the multiply-add ceiling")
    axes.set_ylim(0, ROOM)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_title(f"maps, {run if run == 'forward' else 'forward + backward'}, {threads} threads")


def draw_rows(axes, part, threads):
    """Speed of the mlp map as rows grow, both passes."""
    rows = [row for row in part["rows"]
            if row["kind"] == "knock_mlp" and row["pass"] == "both" and not row["strided"]
            and row["threads"] == threads and row["dim"] == DIM]
    for name in dict.fromkeys(row["contender"] for row in rows):
        points = sorted((row["rows"], row["best_flops_per_s"] / 1e9)
                        for row in rows if row["contender"] == name)
        axes.plot(*zip(*points), marker="o", color=STYLE[name][0], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("rows x heads")
    axes.set_ylabel("useful GFLOP/s")
    axes.set_ylim(bottom=0)
    axes.set_title(f"mlp map, D = {DIM}, forward + backward")
    if rows:
        axes.legend(fontsize=7)


def draw_steps(axes, rows, title):
    labels = list(dict.fromkeys(row["case"] for row in rows))
    series = {}
    for name in dict.fromkeys(row["contender"] for row in rows):
        of = {row["case"]: row["tokens_per_s"] for row in rows if row["contender"] == name}
        series[name] = [of.get(label) for label in labels]
    bars(axes, labels, series, "tokens/s")
    axes.set_title(title)


def draw_scaling(axes, rows, key, title):
    """Tokens a second of each contender over tokens or heads."""
    for name in dict.fromkeys(row["contender"] for row in rows):
        points = sorted((row[key], row["tokens_per_s"]) for row in rows if row["contender"] == name)
        axes.plot(*zip(*points), marker="o", color=STYLE[name][0], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel(key + (" a step" if key == "tokens" else ""))
    axes.set_ylabel("tokens/s")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend(fontsize=7)


def panels(result):
    """(draw, arguments) of every panel that the result has figures for."""
    threads = result["machine"]["threads"]
    for part in result.get("maps", [])[:1]:
        yield draw_shares, (part, "forward", threads)
        yield draw_shares, (part, "both", threads)
        if any(row["kind"] == "knock_mlp" and row["dim"] == DIM for row in part["rows"]):
            yield draw_rows, (part, threads)
    steps = result.get("steps", {})
    for key, title in (("maps", "step with maps"), ("peer", "step beside transformers")):
        if steps.get(key):
            yield draw_steps, (steps[key], title)
    if steps.get("tokens"):
        yield draw_scaling, (steps["tokens"], "tokens", "step, as tokens grow")
    if steps.get("heads"):
        yield draw_scaling, (steps["heads"], "heads", "step, as heads grow")


def write(result, folder):
    """Writes bench.png and bench.svg; returns their paths, none where there is nothing to draw."""
    drawn = list(panels(result))
    if not drawn:
        return []
    columns = min(3, len(drawn))
    lines = -(-len(drawn) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(5 * columns, 4 * lines), squeeze=False)
    for axis in axes.flat[len(drawn):]:
        axis.set_visible(False)
    for axis, (draw, arguments) in zip(axes.flat, drawn):
        draw(axis, *arguments)
    machine = result["machine"]
    figure.suptitle(f"{machine['cpu']}, {machine['instruction_set']}, torch {machine['torch']}, "
                    f"commit {machine['commit']}", fontsize=9)
    figure.tight_layout()
    paths = [folder / "bench.png", folder / "bench.svg"]
    for path in paths:
        figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return paths
