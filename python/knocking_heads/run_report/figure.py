"""A figure of the report: how it is drawn, its data, its words; and how it becomes files."""

import base64
import csv
import io
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .style import QUIET, settings_of_matplotlib, with_page_fonts


@dataclass
class Figure:
    key: str  # stem of its files
    title: str
    caption: str = ""  # what is drawn, with units
    alt: str = ""  # what a reader who does not see it should know
    draw: Callable[[bool], object] | None = None  # narrow? -> a matplotlib figure
    columns: list[str] = field(default_factory=list)
    rows: list[list] = field(default_factory=list)
    missing: str = ""  # why there is nothing to draw
    bitmap: bool = False  # heat maps are pictures in the page, not lines
    source: str = ""  # runs and commit
    command: str = ""


@dataclass
class Rendered:
    wide: str  # data: addresses
    narrow: str


def new_figure(narrow: bool, height: float):
    """As wide as the page; on a phone as wide as a phone, so that letters keep their size."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(3.9 if narrow else 10.8, height), dpi=100)


def panels(narrow: bool, count: int, columns: int, height: float, extra: float = 0.4, **options):
    """A grid of `count` panels, each `height` inches tall; returns the figure and its axes."""
    columns = max(1, min(columns, count))
    lines = math.ceil(count / columns)
    figure = new_figure(narrow, lines * height + extra)
    axes = list(figure.subplots(lines, columns, squeeze=False, **options).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def file_name(label: str) -> str:
    """A label as part of a file's name."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in label)


def shortened(label: str, width: int) -> str:
    """The middle goes: a name differs from its neighbours at either end."""
    if len(label) <= width:
        return label
    half = (width - 1) // 2
    return label[: width - 1 - half] + "…" + label[-half:]


def legend_below(figure, entries: dict, narrow: bool) -> None:
    """One legend for all panels, under them. `entries`: label -> what stands for it."""
    width = 34 if narrow else 40
    labels = [shortened(label, width) for label in entries]
    room = 44 if narrow else 120
    columns = max(1, min(len(labels), room // (max(map(len, labels)) + 7)))
    figure.legend(list(entries.values()), labels, loc="outside lower left", ncols=columns)


def ticks_of_log(low: float, high: float) -> list[float]:
    """Round values between the two: 1, 2, 5 of each decade, finer where that gives too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if 3 <= len(ticks) <= 7:
            return ticks
    if len(ticks) > 7:
        return ticks[:: math.ceil(len(ticks) / 6)]
    from matplotlib.ticker import MaxNLocator

    return [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high and tick]


def log_axis(axis, values: list[float], formatter=None) -> None:
    """`axis` is an xaxis or a yaxis; `values` is what it shows."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    values = [value for value in values if value and value > 0]
    if not values:
        return
    low, high = min(values), max(values)
    margin = (high / low) ** 0.03 if high > low else 1.1
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.axes.set(**{f"{axis.axis_name}lim": (low / margin, high * margin)})
    axis.set_major_locator(FixedLocator(ticks_of_log(low / margin, high * margin)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(formatter or FuncFormatter(lambda value, _: short_number(value)))


def short_number(value: float) -> str:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")(value) if value >= 10000 else f"{value:.4g}"


def tokens_axis(axes, tokens: list[float], log: bool = True) -> None:
    from matplotlib.ticker import EngFormatter

    formatter = EngFormatter(sep="")
    axes.set_xlabel("training tokens")
    if log and tokens and min(tokens) > 0:
        log_axis(axes.xaxis, tokens, formatter)
    else:
        axes.xaxis.set_major_formatter(formatter)


def gaps(values: list) -> list[float]:
    return [math.nan if value is None else value for value in values]


def as_svg(canvas, **options) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None}, **options)
    return with_page_fonts(buffer.getvalue())


def encoded(canvas, bitmap: bool, narrow: bool) -> str:
    if not bitmap:
        return f"data:image/svg+xml;base64,{base64.b64encode(as_svg(canvas)).decode()}"
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", dpi=200 if narrow else 110)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def add_caption(canvas, figure: Figure):
    """A file stands alone: title above, below what is drawn and what made it.

    Returns the box that holds all of it, in inches.
    """
    from matplotlib.transforms import Bbox

    lines = textwrap.wrap(figure.caption, 140)
    lines += textwrap.wrap(f"{figure.source} · {figure.command}", 140)
    width, height = canvas.get_size_inches()
    title = textwrap.shorten(figure.title, 100, placeholder="…")
    canvas.text(0, 1 + 0.15 / height, title, va="bottom", fontweight="bold", fontsize=14)
    canvas.text(0, -0.12 / height, "\n".join(lines), va="top", fontsize=8.5, color=QUIET)
    foot = 0.25 + 0.145 * len(lines)
    return Bbox([[-0.2, -foot], [width + 0.2, height + 0.55]])


def write_table(figure: Figure, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(figure.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in figure.rows)


def render(figure: Figure, folder: Path) -> Rendered:
    """Writes KEY.png, KEY.svg and KEY.csv; returns what the page shows."""
    import matplotlib

    with matplotlib.rc_context(settings_of_matplotlib(narrow=True)):
        narrow = encoded(figure.draw(True), figure.bitmap, True)
    with matplotlib.rc_context(settings_of_matplotlib(narrow=False)):
        canvas = figure.draw(False)
        wide = encoded(canvas, figure.bitmap, False)
        canvas.set_layout_engine("none")  # as it was laid out for the page
        box = add_caption(canvas, figure)
        (folder / f"{figure.key}.svg").write_bytes(as_svg(canvas, bbox_inches=box))
        canvas.savefig(folder / f"{figure.key}.png", dpi=150, bbox_inches=box)
    write_table(figure, folder / f"{figure.key}.csv")
    return Rendered(wide, narrow)
