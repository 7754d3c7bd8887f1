"""Reports drawn from made-up runs, and what the tests of a report read from them."""

import csv
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import write_comparison

PROGRAM = Path(__file__).resolve().parents[2] / "python/knocking_heads/report.py"
sys.path.insert(0, str(PROGRAM.parent))
statistics = importlib.import_module("run_report.statistics")
study = importlib.import_module("run_report.study")
summary = importlib.import_module("run_report.summary")

SHIFTS = {"baseline": [0.0, 0.0, 0.0], "kha-linear": [-0.05, -0.06, -0.055],
          "kha-mlp": [0.05, 0.04, 0.06], "kha-gate-v": [0.01, -0.012, 0.001]}  # fmt: skip


def report(*arguments, cwd=None):
    command = [sys.executable, "-P", str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def table(folder, name):
    return list(csv.DictReader((folder / "report" / f"{name}.csv").open()))


def words_of(svg: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())


def summarised(*folders):
    return summary.summarise(study.read_study([Path(folder) for folder in folders]))


def draw_duel(folder: Path) -> Path:
    """Three seeds: one setting clearly better, one clearly worse, one undecided."""
    write_comparison(folder, SHIFTS)
    compare = json.loads((folder / "compare.json").read_text())
    for entry in compare["differences"]:
        made = study.difference_of(study.read_group(folder), entry["setting"]).bands[-1]
        entry["low"], entry["high"] = made.low, made.high
    (folder / "compare.json").write_text(json.dumps(compare))
    done = report(folder)
    assert done.returncode == 0, done.stderr
    assert f"{folder}/report.html" in done.stdout
    return folder


_made: dict[str, Path] = {}


@pytest.fixture(scope="session")
def duel(tmp_path_factory):
    """Drawn once, whichever files of tests ask for it."""
    if not _made:
        _made["duel"] = draw_duel(tmp_path_factory.mktemp("report") / "duel")
    return _made["duel"]


@pytest.fixture(scope="session")
def page(duel):
    return (duel / "report.html").read_text()
