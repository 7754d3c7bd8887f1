"""`kha compare`: arms that differ in nothing but the maps, an honest verdict, pictures."""

import csv
import json
import os
import subprocess
import time

import pytest
from conftest import BIN, settings
from test_train import losses

ARMS = ["baseline", "kha-linear", "kha-mlp"]


@pytest.fixture(scope="module")
def comparison(train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    result = train(folder, command="compare", run__name="c", train__steps=12, compare__settings=ARMS)
    return folder / "c", result


def test_it_writes_figures_and_pictures(comparison):
    folder, result = comparison
    figures = json.loads((folder / "compare.json").read_text())
    assert [arm["setting"] for arm in figures["arms"]] == ARMS
    assert [d["setting"] for d in figures["differences"]] == ARMS[1:]
    for arm in figures["arms"]:
        assert (folder / arm["run"] / "checkpoints/latest/config.json").exists()
        assert 0 < arm["val_loss"] < 6 and arm["tokens_per_second"] > 0 and arm["peak_bytes"] > 1e7
    assert figures["arms"][0]["knock_parameters"] == 0
    assert figures["arms"][2]["knock_parameters"] == 2 * 3 * 16 * 16
    assert (folder / "curves.png").stat().st_size > 10000
    rows = list(csv.DictReader((folder / "curves.csv").open()))
    assert {row["arm"] for row in rows} == set(ARMS)


def test_step_one_has_the_baselines_loss_in_every_arm(comparison):
    """Same weights, same batch, maps at the identity: the first loss is the same number."""
    folder, _ = comparison
    first = {arm: losses(folder / f"arms/{arm}-s1")[1] for arm in ARMS}
    assert first["kha-mlp"] == first["baseline"]
    assert first["kha-linear"] == first["baseline"]
    last = {losses(folder / f"arms/{arm}-s1")[12] for arm in ARMS}
    assert len(last) == 3


def test_the_verdict_claims_no_more_than_the_interval(comparison):
    folder, result = comparison
    for difference in json.loads((folder / "compare.json").read_text())["differences"]:
        line = next(l for l in result.stdout.splitlines() if l.strip().startswith(difference["setting"] + ":"))
        if difference["low"] <= 0 <= difference["high"]:
            assert "no difference from baseline is shown" in line
        else:
            assert ("lower" if difference["mean"] < 0 else "higher") + " loss than baseline" in line
        assert difference["kind"] == "documents"
    assert "does not cover training noise" in result.stdout.replace("\n", " ")


def test_doing_it_again_reuses_every_arm(comparison, train):
    folder, _ = comparison
    before = (folder / "compare.json").read_bytes()
    again = train(folder.parent, command="compare", run__name="c", train__steps=12, compare__settings=ARMS)
    assert (folder / "compare.json").read_bytes() == before
    assert "validation loss" not in again.stdout  # nothing was trained or evaluated


def test_several_seeds_give_an_interval_over_seeds(train, tmp_path):
    result = train(tmp_path, command="compare", run__name="c", train__steps=4, compare__seeds=3,
                   compare__settings=["baseline", "kha-linear-v"])
    figures = json.loads((tmp_path / "c/compare.json").read_text())
    assert [(a["setting"], a["seed"]) for a in figures["arms"]] == [
        (s, seed) for seed in (1, 2, 3) for s in ("baseline", "kha-linear-v")]
    difference = figures["differences"][0]
    pairs = {(a["setting"], a["seed"]): a["val_loss"] for a in figures["arms"]}
    mean = sum(pairs["kha-linear-v", s] - pairs["baseline", s] for s in (1, 2, 3)) / 3
    assert difference["kind"] == "seeds" and difference["mean"] == pytest.approx(mean, abs=1e-12)
    assert difference["low"] < mean < difference["high"]
    assert "does not cover training noise" not in result.stdout


def test_a_stopped_comparison_goes_on(train, tiny_text, tmp_path):
    common = dict(run__name="c", train__steps=30, compare__settings=["baseline", "kha-mlp"])
    killed = train(tmp_path, command="compare", check=False, env={"KHA_FAIL_POINT": "step-17"}, **common)
    assert killed.returncode == 86
    train(tmp_path, command="compare", **common)
    train(tmp_path / "other", command="compare", **common)
    figures = [json.loads((folder / "c/compare.json").read_text()) for folder in (tmp_path, tmp_path / "other")]
    for one, other in zip(figures[0]["arms"], figures[1]["arms"]):
        assert one["val_loss"] == other["val_loss"]


def test_a_signal_ends_it_and_says_how_to_go_on(tiny_text, tmp_path):
    given = {"run.folder": tmp_path, "data.paths": [tiny_text], "run.name": "c"}
    process = subprocess.Popen([str(BIN / "kha"), "compare", *settings(**given, train__steps=1000000)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "c/arms/baseline-s1/metrics.jsonl"
    end = time.time() + 60
    while not (metrics.exists() and metrics.stat().st_size > 500) and time.time() < end:
        time.sleep(0.05)
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, out + err
    assert "the same command goes on from there" in out
    assert not (tmp_path / "c/compare.json").exists()


@pytest.mark.parametrize("changes, words", [
    (dict(compare__settings=["baseline"]), "at least two settings"),
    (dict(compare__settings=["baseline", "kha-mpl"]), "did you mean `kha-mlp`"),
    (dict(compare__settings=["baseline", "baseline"]), "stands twice"),
    (dict(knock__v="mlp"), "have no meaning in a comparison"),
    (dict(data__validation_share=0.0), "a comparison needs a held-out split"),
])
def test_bad_comparisons_are_sentences(train, tmp_path, changes, words):
    result = train(tmp_path, command="compare", check=False, run__name="c", **changes)
    assert result.returncode == 2 and words in result.stderr
