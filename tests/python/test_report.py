"""`kha report` on made-up runs: its figures' data and labels, its errors."""

import json
import re

import pytest
from drawn_reports import SHIFTS, duel, report, statistics, table, words_of  # noqa: F401, F811
from made_runs import LAYERS, TOKENS, write_comparison, write_lines, write_run


def test_loss_has_every_point_of_every_arm(duel):
    rows = table(duel, "loss")
    own = [row for row in rows if (row["setting"], row["seed"]) == ("kha-mlp", "2")]
    training = [row for row in own if row["what"] == "training loss"]
    validation = [row for row in own if row["what"] == "validation loss"]
    assert len(rows) == 12 * (100 + 10) and len(training) == 100 and len(validation) == 10
    lines = map(json.loads, (duel / "arms/kha-mlp-s2/metrics.jsonl").read_text().splitlines())
    logged = {line["tokens"]: line["train/loss"] for line in lines if "train/loss" in line}
    assert {int(row["tokens"]): float(row["value"]) for row in training} == logged
    assert training[5]["smoothed"] != "" and validation[5]["smoothed"] == ""
    words = words_of(duel / "report/loss.svg")
    for label in ("training tokens", "loss (nats per token)", "training", "validation", *SHIFTS):
        assert label in words, label


def test_difference_is_paired_by_seed_and_step_with_its_band(duel):
    rows = [row for row in table(duel, "difference") if row["setting"] == "kha-linear"]
    assert [int(row["tokens"]) for row in rows] == [TOKENS * 20 * i for i in range(1, 11)]
    means = [float(row["difference"]) for row in rows]
    assert means == pytest.approx([-0.055 * i / 10 for i in range(1, 11)])
    last = statistics.over_seeds(SHIFTS["kha-linear"])
    assert float(rows[-1]["low"]) == pytest.approx(last.low)
    assert {row["interval over"] for row in rows} == {"seeds"}
    assert "Band: 95 % interval over 3 seeds" in (duel / "report/difference.svg").read_text()


def test_of_one_seed_the_band_is_over_documents(tmp_path):
    folder = write_comparison(tmp_path / "c", {"baseline": [0.0], "kha-mlp": [-0.02]})
    assert report(folder).returncode == 0
    rows = table(folder, "difference")
    assert len(rows) == 10 and all(float(row["low"]) < float(row["high"]) for row in rows)
    assert {row["interval over"] for row in rows} == {"documents"}
    assert "over documents (of one seed" in (folder / "report.html").read_text()


def test_rate_and_speed_have_units(duel):
    assert {row["what"] for row in table(duel, "rate")} == {"learning rate", "gradient norm"}
    speed = table(duel, "speed")
    assert {row["value"] for row in speed if row["what"] == "memory"} == {"0.4"}
    words = words_of(duel / "report/speed.svg")
    assert "tokens per second" in words and "resident memory (GB)" in words
    assert "Made-up CPU" in (duel / "report/speed.svg").read_text()


def test_heat_maps_are_the_checkpoints_matrices_the_papers_way(duel):
    rows = table(duel, "map-change-kha-linear")
    assert len(rows) == 3 * LAYERS * 64
    off = {(r["layer"], r["matrix"], r["row"], r["column"]): float(r["value"]) for r in rows
           if float(r["value"])}  # fmt: skip
    # Output 0 takes a quarter of input 1 in layer 0: row 1, column 0.
    assert off["0", "T on Q", "1", "0"] == 0.25 and off["2", "T on V", "1", "0"] == 0.75
    assert len(off) == 3 * LAYERS
    whole = {(r["matrix"], r["row"], r["column"]): float(r["value"]) for r in table(duel, "maps-kha-mlp")}
    assert whole["U on V", "3", "3"] == 1 and whole["G on V", "3", "3"] == 0
    words = words_of(duel / "report/map-change-kha-mlp.svg")
    assert {"U on V, layer 0", "G on V, layer 1", "W on V, layer 2", "M − start"} <= set(words)


def test_the_colour_range_is_one_for_all_settings(duel):
    ticks = []
    for setting in ("kha-linear", "kha-mlp", "kha-gate-v"):
        words = words_of(duel / f"report/map-change-{setting}.svg")
        ticks.append([word for word in words if re.fullmatch(r"[−-]?\d\.\d+", word)])
    assert ticks[0] == ticks[1] == ticks[2] and ticks[0][0][1:] == ticks[0][-1]


def test_distance_condition_and_similarity(duel):
    rows = table(duel, "map-course-kha-mlp")
    last = {(r["layer"], r["matrix"], r["what"]): float(r["value"]) for r in rows}
    assert last["2", "U on V", "distance from start"] == pytest.approx(0.3)
    assert last["1", "G on V", "condition number"] == pytest.approx(11)
    heads = {(r["setting"], r["layer"], r["slot"], r["when"]): float(r["mean |cosine|"])
             for r in table(duel, "similarity")}  # fmt: skip
    assert heads["kha-mlp", "2", "v", "before"] == 0.2
    assert heads["kha-mlp", "2", "v", "after"] == pytest.approx(0.4)
    assert ("baseline", "2", "v", "before") not in heads
    assert (duel / "report/heads-kha-mlp.png").read_bytes()[:4] == b"\x89PNG"


# Bad input.


@pytest.mark.parametrize(
    "files, parts",
    [
        ({}, ["there is no folder", "next:"]),
        ({"a/x": ""}, ["there is no metrics.jsonl in", "compare.json"]),
        ({"a/metrics.jsonl": '{"step": 1}\n'}, ["no losses", "1 lines", "first log step"]),
        ({"a/metrics.jsonl": "{}\nnot\n"}, ["line 2", "is not JSON", "found: not"]),
        ({"a/compare.json": "{}"}, ["compare.json lists no arms"]),
        ({"a/compare.json": '{"arms": [{"seed": 1}]}'}, ["without `setting` or `run`"]),
        ({"a/arms/x": ""}, ["no arm of", "has begun"]),
        ({"a/metrics.jsonl": '{"step":1,"tokens":8,"train/loss":2}\n', "a/config.toml": "= 3"},
         ["config.toml is not TOML"]),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence_and_exit_code_2(tmp_path, files, parts):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = report("a", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kha report: ") and "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr
    assert not (tmp_path / "a/report.html").exists()


def test_losses_that_are_no_number_are_gaps_and_said(tmp_path):
    lines = [{"step": i, "tokens": 8 * i, "train/loss": 3.0 - i / 40} for i in range(1, 41)]
    lines[19]["train/loss"] = None
    write_run(tmp_path / "a", steps=20, whole=False)
    write_lines(tmp_path / "a/metrics.jsonl", lines)
    with (tmp_path / "a/metrics.jsonl").open("a") as file:
        file.write('{"step": 41, "tok')
    assert report(tmp_path / "a").returncode == 0
    rows = table(tmp_path / "a", "loss")
    assert len(rows) == 40 and rows[19]["value"] == "" and rows[19]["smoothed"] == ""
    page = (tmp_path / "a/report.html").read_text()
    assert "1 logged loss is not a number, shown as gaps" in page
    assert "half written" in page


def test_a_damaged_checkpoint_is_named(tmp_path):
    write_run(tmp_path / "a", steps=20)
    (tmp_path / "a/checkpoints/latest/model.safetensors").write_bytes(b"nothing")
    done = report(tmp_path / "a")
    assert done.returncode == 2 and "model.safetensors cannot be read" in done.stderr
    assert "kha inspect" in done.stderr


def test_out_that_cannot_be_written_is_a_sentence(tmp_path):
    write_run(tmp_path / "a", steps=20)
    (tmp_path / "file").write_text("")
    done = report(tmp_path / "a", "--out", tmp_path / "file")
    assert done.returncode == 2 and "cannot write" in done.stderr and "--out" in done.stderr


# At the end of a command.


def test_a_report_is_drawn_at_the_end(train, kha, tmp_path):
    done = train(tmp_path, run__name="a", run__report=True, train__steps=4)
    page = tmp_path / "a/report.html"
    assert f"kha report: {page}" in done.stdout and "heads-a" in page.read_text()
    page.unlink()
    done = kha("report", tmp_path / "a")
    assert done.returncode == 0 and page.exists()


def test_a_comparison_draws_one_too(train, tmp_path):
    done = train(tmp_path, command="compare", run__name="c", run__report=True, train__steps=4,
                 compare__settings=["baseline", "kha-linear-v"])
    page = (tmp_path / "c/report.html").read_text()
    assert f"kha report: {tmp_path / 'c/report.html'}" in done.stdout
    assert "kha-linear-v" in page and "over documents" in page
    assert not (tmp_path / "c/arms/baseline-s1/report.html").exists()
