"""One page about a run or a comparison: ``kha report RUN... [--out DIR]``.

Writes ``report.html``, which needs no network and no other file, and a folder ``report`` beside it
with each figure as PNG, SVG and CSV. Several runs are put together as one report. Loads neither
torch nor the operators.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not as a package, which loads torch

from run_report import (  # noqa: E402
    difference_figures,
    expert_figures,
    head_figures,
    map_courses,
    map_figures,
    training_figures,
    variants,
)
from run_report.figure import Figure, render  # noqa: E402
from run_report.lines import RunError  # noqa: E402
from run_report.page import page  # noqa: E402
from run_report.spike_figures import spike_figure  # noqa: E402
from run_report.study import Study, read_study  # noqa: E402
from run_report.summary import summarise  # noqa: E402

FILES = "report"  # folder of the figures, beside report.html


def source_of(study: Study) -> str:
    """Run names and commit."""
    names = ", ".join(dict.fromkeys(str(group.folder) for group in study.groups))
    commits = list(dict.fromkeys(filter(None, (run.fact("commit") for run in study.runs))))
    commit = f"kha at commit {', '.join(commits)}" if commits else "commit not recorded"
    return f"{names} · {commit}"


def command_of(study: Study) -> str:
    commands = list(dict.fromkeys(filter(None, (run.fact("command") for run in study.runs))))
    return " ; ".join(commands) if commands else "command not recorded (an older kha)"


def sections_of(study: Study) -> list[tuple[str, str, list[Figure]]]:
    training, differences, heads = training_figures, difference_figures, head_figures
    over_cache = [("cache", "Loss against cache", [variants.cache_figure(study)])]
    experts = expert_figures.expert_figures(study)
    return [
        *(over_cache if study.variants else []),
        ("final", "Difference at the end", [differences.final_figure(study)]),
        ("loss", "Loss", [training.loss_figure(study)]),
        ("spikes", "Loss spikes", [spike_figure(study)]),
        ("difference", "Difference over training", [differences.difference_figure(study)]),
        ("similarity", "Similarity of the heads",
         [heads.similarity_figure(study), *heads.head_matrices(study)]),
        ("maps", "Learned maps", map_figures.heat_maps(study)),
        ("course", "How far the maps have gone", map_courses.map_courses(study)),
        *([("experts", "Experts", experts)] if experts else []),
        ("rate", "Learning rate and gradient norm", [training.rate_figure(study)]),
        ("speed", "Speed and memory", [training.speed_figure(study)]),
    ]  # fmt: skip


def write_report(folders: list[Path], out: Path) -> Path:
    study = read_study(folders)
    files = out / FILES
    files.mkdir(parents=True, exist_ok=True)
    source, command = source_of(study), command_of(study)
    sections = []
    for key, heading, figures in sections_of(study):
        drawn = []
        for figure in figures:
            figure.source, figure.command = source, command
            drawn.append((figure, render(figure, files) if figure.draw else None))
        sections.append((key, heading, drawn))
    made = f"Made by kha report from {source} · {command}"
    text = page(study, summarise(study), sections, FILES, made)
    path = out / "report.html"
    unfinished = path.with_name(f".report.html.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.rename(path)
    return path


def run(folders: list[Path], out: Path) -> None:
    try:
        path = write_report(folders, out)
    except OSError as error:
        raise RunError(
            f"cannot write {error.filename or out}: {error.strerror}\n"
            "  next: name a folder that can be written with --out"
        ) from error
    print(f"kha report: {path}, figures in {path.parent / FILES}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "kha report",
        description="One page about runs or comparisons: what came out, how sure, what it cost.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN",
                        help="folder of a run (metrics.jsonl) or of a comparison (compare.json); "
                        "several are put together")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="folder for report.html and report/ (the first RUN)")
    options = parser.parse_args(arguments)
    try:
        run(options.runs, options.out or options.runs[0])
    except RunError as error:
        print(f"kha report: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        needed = "matplotlib, numpy and safetensors (make setup)"
        print(f"kha report: {error}\n  next: install {needed}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
