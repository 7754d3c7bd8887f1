"""The table of the arms: what each came to and what it cost. Losing arms stand like winning ones.

A cell is a text, or two: what counts, and a smaller line under it.
"""

from .runs import Run
from .statistics import number
from .study import Difference, Study
from .weights import parameters_of

HEADS = [
    ("setting", ""),
    ("seed", ""),
    ("validation loss", "nats per token"),
    ("bits", "per byte"),
    ("difference", "nats per token"),
    ("95 % interval", "of the setting"),
    ("parameters", "in maps"),
    ("map FLOPs", "on top"),
    ("tokens/s", ""),
    ("peak", "memory"),
    ("steps", ""),
]


def with_commas(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def decimals(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def own_difference(run: Run, study: Study, d: Difference | None) -> str:
    """Of this run from its reference of the same seed."""
    if d is None:
        return "reference" if is_reference(run, study) else "–"
    for group in study.groups:
        for other in group.runs:
            same = run in group.runs and other.seed == run.seed
            if same and other.setting == group.reference:
                pair = (run.validation_loss, other.validation_loss)
                comparable = None not in pair and run.step == other.step
                return number(pair[0] - pair[1]) if comparable else "–"
    return "–"


def is_reference(run: Run, study: Study) -> bool:
    return any(run in group.runs and run.setting == group.reference for group in study.groups)


def interval_of(d: Difference | None) -> str | tuple[str, str]:
    if d is None or not d.final:
        return "–"
    over = f"over {d.seeds} seeds" if d.covers == "seeds" else "over documents"
    return f"{number(d.final.low)} to {number(d.final.high)}", over


def share_of_maps(run: Run) -> str:
    whole, maps = run.figure("flops_per_token"), run.figure("knock_flops_per_token")
    if whole is None or maps is None:
        return "–"
    return f"+{100 * maps / (whole - maps):.2f} %" if maps else "0"


def size_of(run: Run) -> str | tuple[str, str]:
    whole, maps = run.figure("parameters"), run.figure("knock_parameters")
    if whole is None:
        whole, maps = parameters_of(run) or (None, None)
    return "–" if whole is None else (f"{whole:,.0f}", f"{maps:,.0f}")


def memory_of(run: Run) -> str:
    peak = run.figure("peak_bytes")
    return "–" if peak is None else f"{peak / 1e9:.2f} GB"


def rows(study: Study) -> list[tuple[Run, list]]:
    of = {d.setting: d for d in study.differences()}
    table = []
    for run in study.runs:
        d = of.get(run.label)
        steps = f"{run.step:,}"
        if run.steps not in (None, run.step):
            steps = (steps, f"of {run.steps:,}")
        table.append(
            (
                run,
                [
                    run.label,
                    "–" if run.seed is None else str(run.seed),
                    decimals(run.validation_loss),
                    decimals(run.figure("bits_per_byte")),
                    own_difference(run, study, d),
                    interval_of(d),
                    size_of(run),
                    share_of_maps(run),
                    with_commas(run.figure("tokens_per_second")),
                    memory_of(run),
                    steps,
                ],
            )
        )
    return table
