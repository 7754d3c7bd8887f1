"""report.html: one file that needs nothing else."""

import re
from html import escape
from pathlib import Path

from . import table, variants
from .figure import Figure, Rendered
from .study import Study
from .study_looks import looks_of
from .summary import Summary

MARKS = {"better": "▼", "worse": "▲", "undecided": "○", "open": "…"}


def picture(figure: Figure, rendered: Rendered) -> str:
    return (
        f'<picture><source media="(max-width: 640px)" srcset="{rendered.narrow}">'
        f'<img src="{rendered.wide}" alt="{escape(figure.alt, quote=True)}"></picture>'
    )


def files_of(figure: Figure, folder: str) -> str:
    links = " ".join(
        f'<a href="{escape(folder)}/{escape(figure.key)}.{ending}">{ending.upper()}</a>'
        for ending in ("png", "svg", "csv")
    )
    return f'<div class="files">{links}</div>'


def with_code(text: str) -> str:
    """Escaped; what one would copy is set as code and stays in one piece."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"--set [\w.]+=\w+", r"<code>\g<0></code>", text)


def figure_block(figure: Figure, rendered: Rendered | None, folder: str, heading: str) -> str:
    """With a title of its own where that says more than the part's heading."""
    own = figure.title.removeprefix(f"{heading}: ")
    title = f"<h3>{escape(own)}</h3>" if own != heading else ""
    if rendered is None:
        return f'{title}<p class="missing">Not shown. {with_code(figure.missing)}</p>'
    return (
        f'{title}<figure id="figure-{escape(figure.key)}">{picture(figure, rendered)}'
        f"<figcaption>{escape(figure.caption)}"
        f'<details class="source"><summary>{escape(figure.source)}</summary>'
        f"{escape(figure.command)}</details></figcaption>"
        f"{files_of(figure, folder)}</figure>"
    )


def answer(summary: Summary) -> str:
    verdicts = "".join(
        f'<li><span class="mark" aria-hidden="true">{MARKS[v.outcome]}</span>{escape(v.text)}</li>'
        for v in summary.verdicts
    )
    cautions = "".join(f"<li>{with_code(text)}</li>" for text in summary.cautions)
    return (
        f'<section class="answer" id="answer"><p class="headline">{escape(summary.headline)}</p>'
        + (f"<ul>{verdicts}</ul>" if verdicts else "")
        + (f'<ul class="cautions">{cautions}</ul>' if cautions else "")
        + "</section>"
    )


# What all seeds of a setting share, by its place in the table; written once for them.
SHARED = (0, 5, 6, 7)


def cell(content: str | tuple[str, str], lines: int = 1, chip: str = "") -> str:
    span = f' rowspan="{lines}"' if lines > 1 else ""
    if isinstance(content, str):
        return f"<td{span}>{chip}{escape(content)}</td>"
    return f"<td{span}>{chip}{escape(content[0])}<small>{escape(content[1])}</small></td>"


def table_line(cells: list, first: bool, lines: int, colour: str) -> str:
    """`first` of the `lines` of one setting, which carries what they share."""
    chip = f'<span class="chip" style="background:{colour}"></span>'
    parts = []
    for place, content in enumerate(cells):
        if place not in SHARED:
            parts.append(cell(content))
        elif first:
            parts.append(cell(content, lines, chip if place == 0 else ""))
    return f"<tr>{''.join(parts)}</tr>"


def table_block(study: Study) -> str:
    styles = looks_of(study)
    heads = heads_of(table.HEADS)
    groups: dict[str, list] = {}
    for run, cells in table.rows(study):
        groups.setdefault(run.label, []).append(cells)
    bodies = "".join(
        "<tbody>"
        + "".join(
            table_line(cells, place == 0, len(lines), styles[label].colour)
            for place, cells in enumerate(lines)
        )
        + "</tbody>"
        for label, lines in groups.items()
    )
    return (
        '<h2 id="arms">Arms</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="Table of the arms"><table><thead><tr>{heads}</tr></thead>'
        f"{bodies}</table></div>"
    )


def heads_of(columns: list[tuple[str, str]]) -> str:
    return "".join(
        f'<th scope="col">{escape(name)}<small>{escape(unit)}</small></th>'
        for name, unit in columns
    )


def variant_lines(rows: list[variants.Row], colour: str) -> str:
    """The lines of one variant; what it has once stands in the first."""
    chip = f'<span class="chip" style="background:{colour}"></span>'
    lines = []
    for place, row in enumerate(rows):
        parts = []
        for column, content in enumerate(variants.cells(row)):
            own = column < variants.OWN
            if own and place == 0:
                parts.append(cell(content, len(rows), chip if column == 0 else ""))
            elif not own:
                parts.append(cell(content))
        lines.append(f"<tr>{''.join(parts)}</tr>")
    return f"<tbody>{''.join(lines)}</tbody>"


def variants_block(study: Study) -> str:
    """The table in the form of the paper's third; nothing without variants."""
    if not study.variants:
        return ""
    styles, groups = looks_of(study), {}
    for row in variants.rows_of(study):
        groups.setdefault(id(row.group), []).append(row)
    bodies = "".join(
        variant_lines(rows, styles[rows[0].group.runs[0].label].colour) for rows in groups.values()
    )
    return (
        '<h2 id="variants">Variants</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="Table of the variants"><table class="variants"><thead><tr>'
        f"{heads_of(variants.HEADS)}</tr></thead>{bodies}</table></div>"
    )


def about(study: Study) -> str:
    runs = f"{len(study.runs)} runs" if len(study.runs) > 1 else "1 run"
    tokens = [run.series(key)[0] for run in study.runs for key in ("train/loss", "val/loss")]
    most = max((at[-1] for at in tokens if at), default=0)
    if study.variants:
        runs = f"{len(study.variants)} variants, {runs}"
    settings = f"{len(study.labels)} settings, " if len(study.labels) > 1 and not study.variants else ""
    return f"{settings}{runs}, up to {most:,.0f} training tokens each"


def page(study: Study, summary: Summary, sections: list, folder: str, made: str) -> str:
    """`sections`: (id, heading, [(figure, rendered or None)]) in their order."""
    style = (Path(__file__).parent / "page.css").read_text()
    links = "".join(f'<a href="#{key}">{escape(heading)}</a>' for key, heading, _ in sections)
    first = '<a href="#variants">Variants</a>' if study.variants else ""
    blocks = []
    for key, heading, figures in sections:
        blocks.append(f'<h2 id="{key}">{escape(heading)}</h2>')
        for figure, rendered in figures:
            blocks.append(figure_block(figure, rendered, folder, heading))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>{escape(study.name)}: kha report</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header>
<p class="brand">kha report</p>
<h1>{escape(study.name)}</h1>
<p class="about">{escape(about(study))}</p>
{answer(summary)}
<nav aria-label="Parts">{first}<a href="#arms">Arms</a>{links}</nav>
</header>
<main>
{variants_block(study)}{table_block(study)}
{"".join(blocks)}
</main>
<footer>{escape(made)}</footer>
</body>
</html>
"""
