"""Figures of a mixture of experts: who carried the load over time, and how even it was."""

from math import nan

from .figure import Figure, file_name, gaps, panels, tokens_axis
from .lines import read_lines
from .logged import COLUMNS, rows_of
from .runs import Run
from .study import Study
from .study_looks import legend_of, looks_of
from .style import diverging_colours

MOST = 2.0  # mean loads at the strong end of the colours
DEAD = "#b9bec4"  # an expert without a token: not the darkest of the small loads
GLOBAL = "moe/max_vio_global"
KEYS = {"moe/max_vio": "largest load over the mean, less one", "moe/dead": "share without a token"}


def loads_of(run: Run) -> dict[int, tuple[list[int], list[list[float]]]]:
    """layer -> tokens at each line, and there the load of each expert in mean loads."""
    path = run.folder / "experts.jsonl"
    found: dict = {}
    for line in read_lines(path) if path.is_file() else []:
        for layer, counts in line.get("counts", {}).items():
            mean = sum(counts) / len(counts) if counts else 0
            if mean == 0:
                continue
            at, loads = found.setdefault(int(layer), ([], []))
            at.append(line["tokens"])
            loads.append([count / mean for count in counts])
    return found


def draw_loads(axis, tokens: list[int], loads: list[list[float]]):
    """One layer: experts upwards, tokens to the right."""
    colours = diverging_colours().copy()
    colours.set_bad(DEAD)
    shown = axis.imshow(
        [[load or nan for load in expert] for expert in zip(*loads)],
        aspect="auto", origin="lower", cmap=colours, vmin=0, vmax=MOST, interpolation="nearest",
        extent=(tokens[0], max(tokens[-1], tokens[0] + 1), -0.5, len(loads[0]) - 0.5),
    )  # fmt: skip
    axis.grid(False)
    axis.set_ylabel("expert")
    axis.yaxis.get_major_locator().set_params(integer=True)
    tokens_axis(axis, tokens, log=False)
    return shown


def draw_load_map(loads: dict, narrow: bool):
    layers, shown = sorted(loads), None
    figure, axes = panels(narrow, len(layers), 1 if narrow else 2, 2.2)
    for axis, layer in zip(axes, layers):
        shown = draw_loads(axis, *loads[layer])
        axis.set_title(f"layer {layer}")
    figure.colorbar(shown, ax=axes, label="load (mean loads)", extend="max")
    return figure


def load_map(run: Run, loads: dict) -> Figure:
    """One picture a layer."""
    rows = [
        [run.label, run.seed, layer, at, expert, load]
        for layer, (tokens, values) in sorted(loads.items())
        for at, line in zip(tokens, values)
        for expert, load in enumerate(line)
    ]
    dead = sum(load == 0 for *_, load in rows)
    return Figure(
        f"experts-{file_name(run.label)}",
        f"Load of the experts: {run.name}",
        "How often each expert was chosen in a step, in mean loads of its layer: white is its "
        "share, blue less, orange more, up to 2 and above; grey is an expert that no token chose.",
        f"Heat maps of {len(loads)} layers. {dead} of {len(rows)} loads shown are zero.",
        lambda narrow: draw_load_map(loads, narrow),
        ["setting", "seed", "layer", "tokens", "expert", "load"],
        rows,
        bitmap=True,
    )


def draw_line(axis, study: Study, key: str) -> list:
    """Every run's figure; with MaxVio the dots of the whole validation text. Returns the tokens."""
    styles, shown = looks_of(study), []
    for run in study.runs:
        tokens, values = run.series(key)
        axis.plot(tokens, gaps(values), lw=1.3, **styles[run.label].line())
        shown += tokens
        if key == "moe/max_vio":
            at, whole = run.series(GLOBAL)
            axis.plot(at, gaps(whole), color=styles[run.label].colour, marker="o", ms=4,
                      linestyle="none", gid="global")  # fmt: skip
    return shown


def draw_balance(study: Study, narrow: bool):
    figure, axes = panels(narrow, len(KEYS), 1 if narrow else 2, 2.6 if narrow else 3.2)
    for axis, (key, name) in zip(axes, KEYS.items()):
        shown = draw_line(axis, study, key)
        axis.set_title(name)
        axis.set_ylim(bottom=0)
        tokens_axis(axis, shown)
    legend_of(figure, study, narrow)
    return figure


def balance_figure(study: Study) -> Figure:
    return Figure(
        "experts-balance",
        "How even the load of the experts was",
        "Of each logged step. Left: MaxVio, the largest load of an expert over the mean load, less "
        "one, as the mean over layers; a dot is the same of the whole validation text. Right: the "
        "share of all experts that no token chose.",
        "Two panels of curves over tokens: MaxVio, and the share of experts without a token.",
        lambda narrow: draw_balance(study, narrow),
        COLUMNS,
        rows_of(study, {**KEYS, GLOBAL: "MaxVio of the validation text"}),
    )


def expert_figures(study: Study) -> list[Figure]:
    """None for runs without experts."""
    found = [(run, loads_of(run)) for run in study.first_runs()]
    maps = [load_map(run, loads) for run, loads in found if loads]
    logged = any(run.series(key)[0] for run in study.runs for key in KEYS)
    return ([balance_figure(study)] if logged else []) + maps
