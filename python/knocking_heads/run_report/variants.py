"""The table of a comparison over variants, in the form of the KHA paper's third table, and the loss
against the size of the cache."""

from dataclasses import dataclass

from .figure import Figure, legend_below, log_axis, panels
from .runs import Run
from .statistics import number
from .study import Difference, Group, Study
from .study_looks import line_key, looks_of

HEADS = [
    ("variant", "attention"),
    ("KV heads", "or latent"),
    ("cache elements", "token and layer"),
    ("parameters", "baseline"),
    ("baseline loss", "nats per token"),
    ("setting", ""),
    ("its loss", "nats per token"),
    ("difference", "95 % interval"),
    ("tokens/s", "baseline"),
    ("peak", "baseline"),
]
OWN = 5  # columns that a variant has once


@dataclass
class Row:
    """A setting of a variant beside its reference; without one, the reference alone."""

    group: Group
    base: list[Run]
    setting: str = ""
    runs: list[Run] | None = None
    difference: Difference | None = None


def rows_of(study: Study) -> list[Row]:
    rows = []
    of = {d.setting: d for d in study.differences()}
    for group in study.variants:
        base = [run for run in group.runs if run.setting == group.reference]
        others = dict.fromkeys(run.setting for run in group.runs if run.setting != group.reference)
        for setting in others:
            own = [run for run in group.runs if run.setting == setting]
            rows.append(Row(group, base, setting, own, of.get(own[0].label)))
        if not others:
            rows.append(Row(group, base))
    return rows


def mean_of(runs: list[Run] | None, key: str) -> float | None:
    """Over the seeds; None where one has no figure yet."""
    values = [run.validation_loss if key == "val_loss" else run.figure(key) for run in runs or []]
    return sum(values) / len(values) if values and None not in values else None


def loss_text(runs: list[Run] | None) -> str | tuple[str, str]:
    loss = mean_of(runs, "val_loss")
    if loss is None:
        return "–"
    if any(not run.finished for run in runs):
        return f"{loss:.4f}", "not finished"
    return (f"{loss:.4f}", f"mean of {len(runs)} seeds") if len(runs) > 1 else f"{loss:.4f}"


def heads_text(model: dict) -> str | tuple[str, str]:
    if model.get("latent_heads"):
        return f"{model['latent_heads']} × {model['kv_latent']}", "latent"
    return str(model.get("kv_heads", "–"))


def cache_text(model: dict) -> str | tuple[str, str]:
    if "cache_elements" not in model:
        return "–"
    parts = [f"{part['name']} {part['heads']} × {part['width']}" for part in model["cache"]]
    return f"{model['cache_elements']:,}", " + ".join(parts)


def difference_text(d: Difference | None) -> str | tuple[str, str]:
    if d is None or not d.final:
        return "–"
    return number(d.final.mean), f"{number(d.final.low)} to {number(d.final.high)}"


def beside(row: Row, key: str, words) -> str | tuple[str, str]:
    base, own = mean_of(row.base, key), mean_of(row.runs, key)
    if own is None:
        return "–" if base is None else ("–", words(base))
    return words(own) if base is None else (words(own), words(base))


def cells(row: Row) -> list:
    model = row.group.model
    size = mean_of(row.base, "parameters")
    return [
        (row.group.variant, model["attention"]) if "attention" in model else row.group.variant,
        heads_text(model),
        cache_text(model),
        "–" if size is None else f"{size:,.0f}",
        loss_text(row.base),
        row.setting or "–",
        loss_text(row.runs),
        difference_text(row.difference),
        beside(row, "tokens_per_second", lambda value: f"{value:,.0f}"),
        beside(row, "peak_bytes", lambda value: f"{value / 1e9:.2f} GB"),
    ]


def data_of(rows: list[Row]) -> list[list]:
    table = []
    for row in rows:
        model, final = row.group.model, row.difference and row.difference.final
        table.append(
            [
                row.group.variant, model.get("attention"), model.get("kv_heads"),
                model.get("latent_heads"), model.get("kv_latent"), model.get("cache_elements"),
                mean_of(row.base, "parameters"), mean_of(row.base, "val_loss"), row.setting,
                mean_of(row.runs, "val_loss"), final and final.mean, final and final.low,
                final and final.high, row.difference and row.difference.covers,
                mean_of(row.base, "tokens_per_second"), mean_of(row.runs, "tokens_per_second"),
                mean_of(row.base, "peak_bytes"), mean_of(row.runs, "peak_bytes"),
            ]
        )  # fmt: skip
    return table


COLUMNS = ["variant", "attention", "kv_heads", "latent_heads", "kv_latent", "cache_elements",
           "parameters", "baseline_loss", "setting", "loss", "difference", "low", "high",
           "interval over", "baseline_tokens_per_second", "tokens_per_second",
           "baseline_peak_bytes", "peak_bytes"]  # fmt: skip


def draw_row(axes, row: Row, looks: dict) -> None:
    at = row.group.model["cache_elements"]
    base, own = mean_of(row.base, "val_loss"), mean_of(row.runs, "val_loss")
    look = looks[row.base[0].label]
    axes.plot([at], [base], ls="none", marker=look.marker, ms=8, mfc="white", mec=look.colour,
              mew=1.6)  # fmt: skip
    if own is not None:
        axes.plot([at, at], [base, own], color=look.colour, lw=1.2, alpha=0.6)
        axes.plot([at], [own], ls="none", marker=look.marker, ms=8, color=look.colour)


def cache_figure(study: Study) -> Figure:
    rows = [row for row in rows_of(study)
            if row.group.model.get("cache_elements") and mean_of(row.base, "val_loss")]  # fmt: skip
    title = "Loss against cache"
    if not rows:
        return Figure("variants", title, missing="No variant has finished its baseline yet.")

    def draw(narrow: bool):
        figure, (axes,) = panels(narrow, 1, 1, 3.4 if narrow else 4.4)
        looks = looks_of(study)
        for row in rows:
            draw_row(axes, row, looks)
        log_axis(axes.xaxis, [row.group.model["cache_elements"] for row in rows])
        axes.set_xlabel("cache: elements per token and layer")
        axes.set_ylabel("validation loss (nats per token)")
        keys = {row.group.variant: line_key(looks[row.base[0].label], True) for row in rows}
        for key in keys.values():
            key.set_linestyle("none")
        legend_below(figure, keys, narrow)
        return figure

    ends = ", ".join(
        f"{row.group.variant} {mean_of(row.base, 'val_loss'):.4f}"
        + (f" and {row.setting} {mean_of(row.runs, 'val_loss'):.4f}"
           if mean_of(row.runs, "val_loss") else "")
        for row in rows
    )  # fmt: skip
    return Figure(
        "variants",
        title,
        "Final validation loss in nats per token against what the cache holds of a token in one "
        "layer, in elements (logarithmic). Hollow: the baseline of the variant; filled: its "
        "settings with maps. Losses of variants may differ by their parameters too: see the table.",
        f"Points, one pair for each variant: {ends}.",
        draw,
        COLUMNS,
        data_of(rows_of(study)),
    )
