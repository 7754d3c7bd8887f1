"""Colours, line styles and the plain look that every figure has."""

from dataclasses import dataclass

# The eight colours of Okabe and Ito, told apart with any kind of colour vision; black comes first,
# yellow, which white paper swallows, is left out.
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
DASHES = ["-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5))]
INK, QUIET, LINE = "#1b1f24", "#57606a", "#d8dde3"

FONTS = ["Inter", "Helvetica Neue", "Segoe UI", "Roboto", "Arial", "DejaVu Sans"]


@dataclass(frozen=True)
class Look:
    """How one setting is drawn, in every figure."""

    colour: str
    marker: str
    dashes: object

    def line(self) -> dict:
        return {"color": self.colour, "linestyle": self.dashes}


def looks(labels: list[str], reference: str = "") -> dict[str, Look]:
    """The reference is black, and only it; more settings than colours take another dash."""
    found = {}
    if reference in labels:
        found[reference] = Look(COLOURS[0], MARKERS[0], DASHES[0])
    for place, label in enumerate(label for label in labels if label != reference):
        colour, dash = place % (len(COLOURS) - 1) + 1, place // (len(COLOURS) - 1) % len(DASHES)
        found[label] = Look(COLOURS[colour], MARKERS[place % 6 + 1], DASHES[dash])
    return found


def looks_of_variants(groups: list[tuple[list[str], str]]) -> dict[str, Look]:
    """`groups`: the labels of each variant and its reference. A variant has one colour and marker;
    its reference is dotted, its other settings are solid, then dashed."""
    found = {}
    for place, (labels, reference) in enumerate(groups):
        colour = COLOURS[(place + 1) % len(COLOURS)]
        marker = MARKERS[place % len(MARKERS)]
        others = [label for label in labels if label != reference]
        if reference in labels:
            found[reference] = Look(colour, marker, DASHES[2])
        for number, label in enumerate(others):
            found[label] = Look(colour, marker, [*DASHES[:2], DASHES[3]][number % 3])
    return found


def settings_of_matplotlib(narrow: bool) -> dict:
    size = 9.0 if narrow else 10.0
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": size,
        "axes.titlesize": size + 0.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlecolor": INK,
        "axes.labelsize": size,
        "axes.labelcolor": QUIET,
        "axes.edgecolor": "#9aa4af",
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#e6e9ed",
        "grid.linewidth": 0.8,
        "text.color": INK,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelsize": size - 0.5,
        "ytick.labelsize": size - 0.5,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "legend.frameon": False,
        "legend.fontsize": size,
        "figure.facecolor": "white",
        "svg.fonttype": "none",  # text stays text: to be read, searched and copied
        "svg.hashsalt": "kha",  # the same figure has the same bytes
        "path.simplify_threshold": 0.4,
        "figure.constrained_layout.use": True,
    }


def with_page_fonts(svg: bytes) -> bytes:
    """Letters take the page's fonts. matplotlib sets them in its own, which is at least as wide."""
    names = ", ".join(f"'{name}'" for name in FONTS)
    return svg.replace(b"'DejaVu Sans'", names.encode())


def diverging_colours():
    """Blue over white to orange: Okabe and Ito's two that differ most, darker at the ends."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = ["#003a5e", "#0072B2", "#8fc3e6", "#ffffff", "#f2b48c", "#D55E00", "#6d2f00"]
    return LinearSegmentedColormap.from_list("blue-orange", stops)
