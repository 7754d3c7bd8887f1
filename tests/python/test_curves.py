"""`kha curves` on made-up runs: what it draws, its table, its errors."""

import csv
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "python/knocking_heads/curves.py"


@pytest.fixture(scope="module")
def curves():
    """The module by its file: the package around it would load torch."""
    spec = importlib.util.spec_from_file_location("kha_curves", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_run(folder, shift=0.0, steps=100):
    """Training loss at every step, validation loss at every tenth, in lines of their own."""
    folder.mkdir(parents=True)
    lines = []
    for step in range(1, steps + 1):
        loss = 2 + 8 * math.exp(-step / 10) + shift
        noise = 0.1 * math.sin(step * 12.9)
        lines.append({"step": step, "tokens": step * 1024, "train/loss": loss + noise, "lr": 1e-3})
        if step % 10 == 0:
            lines.append({"step": step, "val/loss": loss + 0.05})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def comparison(tmp_path):
    root = tmp_path / "duel"
    arms = []
    for setting, shift in [("kha-linear", -0.02), ("baseline", 0.0)]:
        for seed in (1, 2):
            run = f"arms/{setting}-s{seed}"
            write_run(root / run, shift * seed)
            arms.append({"setting": setting, "seed": seed, "run": run, "val_loss": 2.0})
    interval = {
        "setting": "kha-linear",
        "mean": -0.03,
        "low": -0.05,
        "high": -0.01,
        "kind": "seeds",
    }
    (root / "compare.json").write_text(json.dumps({"arms": arms, "differences": [interval]}))
    return root


def test_comparison_has_two_panels_with_units(curves, comparison):
    losses, differences = curves.draw(curves.read_curves(comparison)).axes
    assert losses.get_ylabel() == "loss (nats per token)"
    assert differences.get_ylabel() == "difference (nats per token)"
    assert differences.get_xlabel() == "training tokens"
    assert [text.get_text() for text in losses.get_legend().get_texts()] == [
        "kha-linear",
        "baseline",
    ]
    assert "less that of baseline" in differences.get_title()
    assert "95 % interval over seeds" in differences.get_title()


def test_each_arm_has_raw_smooth_and_validation_lines(curves, comparison):
    losses = curves.draw(curves.read_curves(comparison)).axes[0]
    assert len(losses.lines) == 3 * 4
    assert [len(line.get_xdata()) for line in losses.lines[:3]] == [100, 100, 10]
    assert losses.lines[0].get_alpha() < 0.5
    assert len({line.get_color() for line in losses.lines}) == 2


def test_the_fall_at_the_start_does_not_flatten_the_rest(curves, comparison):
    assert curves.draw(curves.read_curves(comparison)).axes[0].get_ylim()[1] < 8


def test_differences_are_paired_by_seed(curves, comparison):
    panel = curves.draw(curves.read_curves(comparison)).axes[1]
    zero, first, second, bar, mean = panel.lines
    assert list(zero.get_ydata()) == [0, 0]
    assert first.get_ydata() == pytest.approx([-0.02] * 10)
    assert second.get_ydata() == pytest.approx([-0.04] * 10)
    assert list(bar.get_ydata()) == [-0.05, -0.01] and list(mean.get_ydata()) == [-0.03]


def test_smoothing_follows_a_slope_and_evens_out_noise(curves):
    slope = [5.0 - 0.01 * i for i in range(400)]
    assert curves.smooth(slope)[:395] == pytest.approx(slope[:395])
    noisy = curves.smooth([1.0, -1.0] * 200)
    assert noisy[0] == 1.0 and max(map(abs, noisy[20:])) < 0.2


def test_writes_picture_and_table(curves, comparison, capsys):
    assert curves.main([str(comparison)]) == 0
    picture, table = comparison / "curves.png", comparison / "curves.csv"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert str(picture) in capsys.readouterr().out
    rows = list(csv.DictReader(table.open()))
    assert list(rows[0]) == ["arm", "seed", "tokens", "step", "train_loss", "val_loss"]
    assert len(rows) == 4 * 110
    assert rows[0]["arm"] == "kha-linear" and rows[0]["seed"] == "1" and rows[0]["tokens"] == "1024"
    assert float(rows[10]["val_loss"]) == pytest.approx(2 + 8 * math.exp(-1) - 0.02 + 0.05)
    assert rows[10]["train_loss"] == "" and rows[10]["tokens"] == "10240"


def test_a_single_run_has_one_panel(curves, tmp_path):
    write_run(tmp_path / "solo")
    figure = curves.draw(curves.read_curves(tmp_path / "solo"))
    assert len(figure.axes) == 1
    assert figure.get_suptitle() == "solo: 1 run"
    assert figure.get_figwidth() * figure.dpi == 1600
    assert curves.main([str(tmp_path / "solo"), "--out", str(tmp_path / "other.svg")]) == 0
    assert (tmp_path / "other.svg").is_file() and (tmp_path / "other.csv").is_file()


def test_half_a_last_line_and_losses_that_are_no_number_are_left_out(curves, tmp_path):
    write_run(tmp_path / "run", steps=5)
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "tokens": 6144, "train/loss": NaN}\n{"step": 7, "tok')
    assert len(curves.read_points(tmp_path / "run/metrics.jsonl")) == 5


@pytest.mark.parametrize(
    "files, arguments, parts",
    [
        ({}, ["none"], ["there is no folder", "none", "metrics.jsonl"]),
        ({"a/x": ""}, ["a"], ["there is no metrics.jsonl in", "compare.json"]),
        ({"a/metrics.jsonl": '{"step": 1}\n'}, ["a"], ["no losses", "1 lines", "first log step"]),
        ({"a/metrics.jsonl": "{}\nnot\n"}, ["a"], ["line 2", "is not JSON", "found: not"]),
        ({"a/metrics.jsonl": "[1]\n"}, ["a"], ["line 1", "not a JSON object"]),
        ({"a/compare.json": "{}"}, ["a"], ["compare.json lists no arms"]),
        ({"a/compare.json": "{"}, ["a"], ["compare.json is not JSON"]),
        ({"a/compare.json": '{"arms": [{"seed": 1}]}'}, ["a"], ["without `setting` or `run`"]),
        (
            {"a/compare.json": '{"arms": [{"setting": "x", "run": "arms/x"}]}'},
            ["a"],
            ["there is no metrics.jsonl in", "arms/x"],
        ),
        ({"a/x": ""}, ["a", "--out", "b.gif"], ["b.gif", ".png"]),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(tmp_path, files, arguments, parts):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-P", str(SOURCE), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("kha curves: ") and "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_out_in_a_missing_folder_is_a_sentence(curves, tmp_path, capsys):
    write_run(tmp_path / "run", steps=5)
    assert curves.main([str(tmp_path / "run"), "--out", str(tmp_path / "no/where.png")]) == 2
    assert "cannot write" in capsys.readouterr().err
