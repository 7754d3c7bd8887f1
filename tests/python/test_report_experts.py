"""The report's part about experts: their load over time, how even it was."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import TOKENS, write_lines, write_run

PROGRAM = Path(__file__).resolve().parents[2] / "python/knocking_heads/report.py"


def report(folder):
    done = subprocess.run([sys.executable, "-P", str(PROGRAM), str(folder)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return (folder / "report.html").read_text()


def table(folder, name):
    return list(csv.DictReader((folder / "report" / f"{name}.csv").open()))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two layers of four experts; the last of layer 2 is dead until step 20."""
    folder = tmp_path_factory.mktemp("report") / "mixture"
    write_run(folder, steps=40)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if "train/loss" in line:
            line.update({"moe/load_max": 2.0, "moe/load_min": 0.0, "moe/dead": 0.125,
                         "moe/max_vio": 1.0})
        if "val/loss" in line:
            line["moe/max_vio_global"] = 0.25
    write_lines(folder / "metrics.jsonl", lines)
    write_lines(folder / "experts.jsonl",
                [{"step": step, "tokens": step * TOKENS,
                  "counts": {"1": [5, 10, 15, 10], "2": [20, 10, 10, 0 if step < 20 else 40]}}
                 for step in (10, 20, 30, 40)])
    return folder


def test_loads_are_in_mean_loads(run):
    report(run)
    rows = table(run, "experts-mixture")
    found = {(row["layer"], int(row["tokens"]) // TOKENS, row["expert"]): float(row["load"])
             for row in rows}
    assert len(rows) == 2 * 4 * 4
    assert found["1", 10, "0"] == 0.5 and found["1", 40, "2"] == 1.5
    assert found["2", 10, "3"] == 0 and found["2", 20, "3"] == 2


def test_the_page_has_the_part(run):
    page = report(run)
    assert '<h2 id="experts">Experts</h2>' in page
    assert "1 of 32 loads shown are zero" in page
    rows = table(run, "experts-balance")
    assert {float(row["value"]) for row in rows} == {1.0, 0.125, 0.25}
    assert {row["value"] for row in rows if row["what"].startswith("MaxVio of the")} == {"0.25"}
    assert 'id="global"' in (run / "report/experts-balance.svg").read_text()


def test_a_dense_run_has_no_such_part(tmp_path):
    write_run(tmp_path / "dense", steps=40)
    assert 'id="experts"' not in report(tmp_path / "dense")
