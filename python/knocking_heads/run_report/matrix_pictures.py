"""Matrices as pictures: rows of them in one colour range."""

import math
from dataclasses import dataclass

from .figure import new_figure
from .style import diverging_colours

ABOVE, BETWEEN, FOOT = 0.26, 0.1, 0.7  # inches: over a picture, beside it, below all


@dataclass
class Picture:
    """One matrix of a figure."""

    title: str
    matrix: object


def lines_of(rows: dict[str, list[Picture]], columns: int) -> int:
    return sum(math.ceil(len(pictures) / columns) for pictures in rows.values())


def place_pictures(rows: dict[str, list[Picture]], columns: int, side: float):
    """Each picture with the caption above it and the corner where it stands, rows wrapped."""
    line = 0
    for name, pictures in rows.items():
        for place, picture in enumerate(pictures):
            x = (place % columns) * (side + BETWEEN) + 0.03
            y = (line + place // columns) * (side + ABOVE) + ABOVE
            yield f"{name}, {picture.title}", picture, x, y
        line += math.ceil(len(pictures) / columns)


def draw_picture(axes, caption: str, picture: Picture, corner: tuple[float, float], side: float,
                 limit: float):  # fmt: skip
    import numpy
    from matplotlib.patches import Rectangle

    x, y = corner
    image = axes.imshow(numpy.asarray(picture.matrix), cmap=diverging_colours(),
                        vmin=-limit, vmax=limit, interpolation="nearest",
                        extent=(x, x + side, y + side, y), aspect="auto")  # fmt: skip
    axes.add_patch(Rectangle((x, y), side, side, fill=False, ec="#b4bcc6", lw=0.6))
    axes.text(x, y - 0.06, caption, fontsize="small", va="baseline")
    return image


def draw_colour_bar(figure, image, unit: str, length: float) -> None:
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0.35 / width, 0.27 / height, length / width, 0.12 / height))
    bar = figure.colorbar(image, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize="small")
    bar.ax.set_title(unit, fontsize="small", fontweight="normal", pad=3)


def draw_matrices(rows: dict[str, list[Picture]], limit: float, unit: str, narrow: bool):
    """Each row of pictures under its name, wrapped; one colour range, centred on 0.

    All pictures are one image: as axes of their own a deep model's hundreds would take minutes.
    """
    width = 3.9 if narrow else 10.8
    columns = min(max(len(pictures) for pictures in rows.values()), 4 if narrow else 8)
    side = width / max(columns, 4 if narrow else 6) - 0.1  # of a picture, in inches
    height = lines_of(rows, columns) * (side + ABOVE) + FOOT
    figure = new_figure(narrow, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, FOOT / height, 1, 1 - FOOT / height))
    axes.set_axis_off()
    image = None
    for caption, picture, x, y in place_pictures(rows, columns, side):
        image = draw_picture(axes, caption, picture, (x, y), side, limit)
    axes.set(xlim=(0, width), ylim=(height - FOOT, 0))
    draw_colour_bar(figure, image, unit, width - 0.8 if narrow else 4.0)
    return figure


def limit_of(matrices: list, at_least: float = 0.0) -> float:
    """A range that a few outliers do not widen: 99.8 % of all values lie inside."""
    import numpy

    values = numpy.concatenate([abs(m).ravel() for m in matrices])
    values = values[numpy.isfinite(values)]
    return max(float(numpy.quantile(values, 0.998)) if len(values) else 0.0, at_least) or 1.0
