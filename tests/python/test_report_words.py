"""What a report says of the differences, and the statistics behind it."""

import json
import shutil

import numpy
import pytest
from drawn_reports import duel, statistics, summarised  # noqa: F401, F811
from made_runs import write_comparison, write_run


def test_clearly_better_clearly_worse_and_undecided(duel):
    said = summarised(duel)
    assert [v.outcome for v in said.verdicts] == ["better", "worse", "undecided"]
    assert "kha-linear ended below baseline" in said.headline
    assert "kha-mlp ended above baseline" in said.headline
    assert "for kha-gate-v no difference is shown" in said.headline
    assert "lower validation loss than baseline (−0.05" in said.verdicts[0].text
    assert "95 % interval over 3 seeds" in said.verdicts[0].text
    assert "higher validation loss than baseline (+0.05" in said.verdicts[1].text
    assert "0 is inside" in said.verdicts[2].text
    assert any("3 intervals at 95 % each" in text for text in said.cautions)
    assert any("this size of model" in text for text in said.cautions)


@pytest.mark.parametrize(
    "interval, outcome, words",
    [
        ((-0.03, -0.01), "better", "kha-mlp ended below baseline"),
        ((0.01, 0.03), "worse", "kha-mlp ended above baseline"),
        ((-0.01, 0.03), "undecided", "No difference from baseline is shown."),
    ],
)
def test_one_seed_never_speaks_of_more_than_these_two_models(tmp_path, interval, outcome, words):
    folder = write_comparison(
        tmp_path / "c", {"baseline": [0.0], "kha-mlp": [sum(interval) / 2]}, interval=interval
    )
    said = summarised(folder)
    assert said.verdicts[0].outcome == outcome and words in said.headline
    assert "interval over documents" in said.verdicts[0].text
    assert any("does not cover training noise" in text for text in said.cautions)
    if outcome != "undecided":
        assert said.headline.startswith("In one run of each: ")
        assert "One seed does not tell" in said.headline


def test_without_a_baseline_it_does_not_judge(tmp_path):
    write_run(tmp_path / "solo")
    said = summarised(tmp_path / "solo")
    assert said.headline == (
        "This page describes one run. There is no baseline beside it, so it does not judge."
    )
    assert said.verdicts == []


def test_unfinished_arms_decide_nothing(tmp_path):
    folder = write_comparison(
        tmp_path / "c", {"baseline": [0.0, 0.0], "kha-mlp": [-0.5, -0.5]}, finished=False
    )
    for name in ("baseline-s2", "kha-mlp-s2"):
        shutil.rmtree(folder / "arms" / name)
    shutil.rmtree(folder / "arms/kha-mlp-s1")
    write_run(folder / "arms/kha-mlp-s1", "kha-mlp", -0.5, done=100)
    said = summarised(folder)
    assert said.headline == "The comparison has not finished, so nothing is concluded yet."
    assert said.verdicts[0].outcome == "open" and "nothing is concluded" in said.verdicts[0].text
    assert any("Not finished: kha-mlp seed 1" in text for text in said.cautions)
    assert any("2 arms have not begun" in text for text in said.cautions)


def test_an_interval_that_does_not_exist_decides_nothing(tmp_path):
    """One held-out document: kha compare writes an interval without ends."""
    folder = write_comparison(tmp_path / "c", {"baseline": [0.0], "kha-mlp": [-0.5]}, whole=False)
    content = json.loads((folder / "compare.json").read_text())
    content["differences"][0].update(low=None, high=None)
    (folder / "compare.json").write_text(json.dumps(content))
    for run in ("baseline", "kha-mlp"):
        path = folder / f"arms/{run}-s1/summary.json"
        validation = json.loads(path.read_text())
        validation["validation"]["documents"] = {"0": [1.0, 1]}
        path.write_text(json.dumps(validation))
    said = summarised(folder)
    assert said.verdicts[0].outcome == "open" and "has no interval" in said.verdicts[0].text


# The statistics are those of kha compare.


def test_student_quantiles_and_the_interval_over_seeds():
    assert statistics.student_t_95(1) == pytest.approx(12.7062047, abs=1e-6)
    assert statistics.student_t_95(9) == pytest.approx(2.2621572, abs=1e-6)
    made = statistics.over_seeds([-0.1, -0.2, -0.3])
    half = 4.302652730 * 0.1 / 3**0.5
    assert (made.mean, made.high - made.mean) == (pytest.approx(-0.2), pytest.approx(half))
    assert statistics.over_seeds([0.1]) is None


def test_the_interval_over_documents_is_that_of_a_ratio():
    generator = numpy.random.default_rng(1)
    targets = generator.integers(10, 200, 40)
    each = generator.normal(0.02, 0.05, 40) * targets
    base = {str(i): [3.0 * n, int(n)] for i, n in enumerate(targets)}
    arm = {str(i): [3.0 * n + d, int(n)] for i, (n, d) in enumerate(zip(targets, each))}
    made = statistics.over_documents(arm, base)
    mean = each.sum() / targets.sum()
    error = numpy.sqrt(40 / 39 * ((each - mean * targets) ** 2).sum()) / targets.sum()
    assert made.mean == pytest.approx(mean)
    assert made.high == pytest.approx(mean + 2.0226909 * error)
    del arm["0"]
    assert statistics.over_documents(arm, base) is None


def test_smoothing_leaves_gaps_and_evens_out_a_short_run_too():
    noisy = [1.0, -1.0] * 25
    smooth = statistics.smooth(noisy)
    assert max(map(abs, smooth[2:])) < 0.4 and smooth[0] == 1.0
    gapped = statistics.smooth_between_gaps([1.0] * 20 + [None] + [3.0] * 20)
    assert gapped == pytest.approx([1.0] * 20 + [None] + [3.0] * 20)
