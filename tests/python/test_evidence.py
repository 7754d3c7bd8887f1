"""The evidence runs' machinery: known differences in made-up curves give the right verdicts."""

import math
import random

import pytest

from cpp_tests import ROOT

from evidence import document, picture, statistics
from evidence import plan as plans
from evidence.judge import judge

TOKENS = [1000 * n for n in range(1, 9)]
PLAN = """
name = "made-up"
config = "configs/evidence.toml"
[sweep]
arms = ["baseline"]
rates = [1e-3, 2e-3]
steps = 4
seeds = [9]
[arms]
baseline = { set = ["knock.setting=baseline"] }
kha = { set = ["knock.setting=kha-mlp"], rate_of = "baseline" }
gate = { set = ["knock.setting=baseline", "knock.v=gate"], rate_of = "baseline" }
[[stages]]
arms = ["baseline", "kha", "gate"]
seeds = [1, 2, 3]
[[orderings]]
about = "kind"
lower = "kha"
higher = "baseline"
source = "table 1"
[[orderings]]
about = "kind"
lower = "kha"
higher = "gate"
source = "table 2"
"""


@pytest.fixture
def plan(tmp_path):
    return read_plan(tmp_path)


def read_plan(folder, text=PLAN):
    (folder / "plan.toml").write_text(text)
    return plans.read(folder / "plan.toml")


def made_up_run(arm, seed, gap=lambda share: 0.0, noise=0.0, state="finished", tokens=TOKENS):
    """A falling loss with a large scatter that all arms of one seed share, plus the arm's gap."""
    shared = random.Random(f"seed {seed}")
    own = random.Random(f"{arm} {seed}")
    offset, wobble = shared.gauss(0, 0.5), own.gauss(0, noise) if noise else 0.0
    points = [[t, 2 + math.exp(-t / 2000) + offset + gap(t / TOKENS[-1]) + wobble] for t in tokens]
    return {"arm": arm, "seed": seed, "sweep": False, "rate": 0.003, "state": state,
            "parameters": 1000, "map_parameters": 10, "points": points}


def results(*runs):
    config = {"train.context": 8, "train.batch": 5, "train.accumulate": 1, "train.steps": 200,
              "train.eval_every": 25, "train.eval_tokens": 512, "train.precision": "fp32",
              "train.device": "cpu", "model.num_hidden_layers": 2, "model.hidden_size": 48,
              "model.num_attention_heads": 6, "model.num_key_value_heads": 2, "model.head_dim": 16,
              "model.intermediate_size": 144, "schedule.floor": 0.1}
    sweep = [{**made_up_run("baseline", 9, tokens=TOKENS[:2]), "sweep": True, "rate": rate}
             for rate in (1e-3, 2e-3)]
    sweep[1]["points"][-1][1] -= 0.25
    facts = {"cpu": "a CPU", "torch": "2.11.0", "commit": "abc", "date": "2026-11-30", "text": "f00"}
    return {"plan": "made-up", "facts": facts, "config": config, "sweep_steps": 50,
            "runs": [*sweep, *runs]}


def arm(name, seeds, difference=0.0, noise=0.0):
    return [made_up_run(name, seed, lambda share: difference, noise) for seed in seeds]


@pytest.mark.parametrize("degrees, confidence, known", [
    (1, 0.95, 12.7062), (2, 0.95, 4.30265), (3, 0.95, 3.18245), (4, 0.95, 2.77645),
    (5, 0.95, 2.57058), (9, 0.95, 2.26216), (30, 0.95, 2.04227), (2, 0.99, 9.92484),
    (7, 0.99, 3.49948), (10, 0.5, 0.69981)])
def test_students_quantile_is_the_tables(degrees, confidence, known):
    assert statistics.student_quantile(degrees, confidence) == pytest.approx(known, abs=6e-5)


def test_no_quantile_without_degrees_of_freedom():
    with pytest.raises(ValueError, match="two pairs at least"):
        statistics.student_quantile(0)


def test_an_interval_is_the_mean_and_students_half_width():
    found = statistics.interval_over_pairs([1.0, 2.0, 3.0])
    assert found.mean == 2 and found.pairs == 3
    assert found.high - 2 == pytest.approx(4.30265 / math.sqrt(3), abs=1e-4)
    assert 2 - found.low == pytest.approx(found.high - 2)


@pytest.mark.parametrize("pairs", [3, 5])
def test_intervals_cover_the_truth_as_often_as_they_say(pairs):
    draw = random.Random(pairs)
    found = [statistics.interval_over_pairs([draw.gauss(0.01, 0.02) for _ in range(pairs)])
             for _ in range(4000)]
    covered = sum(each.low <= 0.01 <= each.high for each in found) / len(found)
    assert abs(covered - 0.95) < 0.012  # three and a half standard errors


def test_without_a_difference_few_verdicts_are_given():
    draw = random.Random(1)
    found = [statistics.verdict(statistics.interval_over_pairs([draw.gauss(0, 1) for _ in range(4)]))
             for _ in range(4000)]
    for word in ("reproduced", "opposite"):
        assert found.count(word) / len(found) == pytest.approx(0.025, abs=0.009)


@pytest.mark.parametrize("difference, noise, verdict", [
    (-0.05, 0.002, "reproduced"), (0.05, 0.002, "opposite"), (0.0, 0.01, "not decided")])
def test_known_differences_get_their_verdict(difference, noise, verdict):
    found = judge(results(*arm("baseline", [1, 2, 3]), *arm("kha", [1, 2, 3], difference, noise)),
                  "kha", "baseline")
    assert found.verdict == verdict
    assert found.interval.low < -difference < found.interval.high
    assert not found.left_out


def test_what_the_seed_does_to_both_arms_is_paired_away():
    both = results(*arm("baseline", range(5)), *arm("kha", range(5), -0.01, 0.001))
    found = judge(both, "kha", "baseline")
    assert found.verdict == "reproduced" and found.interval.high - found.interval.low < 0.01
    losses = [run["points"][-1][1] for run in arm("baseline", range(5))]
    assert max(losses) - min(losses) > 0.3  # so much does a seed move the loss itself


def test_one_pair_decides_nothing():
    found = judge(results(*arm("baseline", [1]), *arm("kha", [1], -0.5)), "kha", "baseline")
    assert found.verdict == "not decided" and found.interval.high == math.inf
    assert found.interval.mean == pytest.approx(0.5)


def test_unequal_seeds_make_the_pairs_that_there_are():
    found = judge(results(*arm("baseline", [2, 3, 4]), *arm("kha", [1, 2, 3, 4, 5], -0.1)),
                  "kha", "baseline")
    assert sorted(found.pairs) == [2, 3, 4] and found.verdict == "reproduced"
    assert found.left_out == ["baseline has no run of seed 1", "baseline has no run of seed 5"]


def test_an_unfinished_run_is_left_out_and_named():
    half = made_up_run("kha", 3, lambda share: 9.0, state="unfinished", tokens=TOKENS[:3])
    found = judge(results(*arm("baseline", [1, 2, 3]), *arm("kha", [1, 2], -0.1), half),
                  "kha", "baseline")
    assert sorted(found.pairs) == [1, 2] and found.interval.mean == pytest.approx(0.1)
    assert found.left_out == ["kha, seed 3, is not finished"]


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_a_loss_that_is_no_number_leaves_the_ordering_open(bad):
    broken = made_up_run("kha", 3, lambda share: -0.1)
    broken["points"][-1][1] = bad
    found = judge(results(*arm("baseline", [1, 2, 3]), *arm("kha", [1, 2], -0.1), broken),
                  "kha", "baseline")
    assert found.verdict == "not decided" and found.left_out == ["kha, seed 3, diverged"]
    assert found.interval.low > 0  # the pairs that are left would have said more than is known


def test_a_diverged_run_leaves_the_ordering_open():
    broken = made_up_run("kha", 3, state="diverged", tokens=TOKENS[:2])
    found = judge(results(*arm("baseline", [1, 2, 3]), *arm("kha", [1, 2], -0.1), broken),
                  "kha", "baseline")
    assert found.diverged and found.verdict == "not decided"


def test_a_missing_arm_decides_nothing():
    found = judge(results(*arm("baseline", [1, 2])), "kha", "baseline")
    assert found.verdict == "not decided" and found.interval is None and not found.curve
    assert found.left_out == ["kha has no run of seed 1", "kha has no run of seed 2"]


def test_runs_of_the_sweep_are_no_pairs():
    found = results(*arm("kha", [9], -0.1))  # seed 9 of the baseline is the sweep's
    assert not judge(found, "kha", "baseline").pairs


def test_the_difference_is_a_function_of_the_tokens():
    crossing = [made_up_run("kha", seed, lambda share: 0.2 * share - 0.1, 0.001)
                for seed in (1, 2, 3)]
    found = judge(results(*arm("baseline", [1, 2, 3]), *crossing), "kha", "baseline")
    assert [tokens for tokens, _ in found.curve] == TOKENS
    for tokens, interval in found.curve:
        assert interval.mean == pytest.approx(0.1 - 0.2 * tokens / TOKENS[-1], abs=0.003)
    assert found.curve[0][1].low > 0 > found.curve[-1][1].high and found.verdict == "opposite"


def test_pairs_are_compared_at_the_last_tokens_that_all_share():
    short = made_up_run("kha", 2, lambda share: -share, tokens=TOKENS[:4])
    long = made_up_run("kha", 1, lambda share: -share)
    found = judge(results(*arm("baseline", [1, 2]), long, short), "kha", "baseline")
    assert found.curve[-1][0] == TOKENS[3] and set(found.pairs) == {1, 2}
    assert found.pairs[1] == pytest.approx(0.5) and "last shared one" in found.left_out[0]


def example():
    return results(*arm("baseline", [1, 2, 3]), *arm("kha", [1, 2, 3], -0.05, 0.001),
                   *arm("gate", [1], 0.2))


def test_the_document_says_what_was_measured_and_no_more(plan):
    text = document.text(plan, example(), "made-up.png")
    assert "**reproduced** 1: kha below baseline" in text
    assert "**not decided** 1: kha below gate" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| kha < gate | kind")]
    assert "| table 2 | 0.003 | 1 | +0.2" in row
    assert "| 1 | +0.2" in row and "one pair, no interval" in row
    assert "| baseline | 1,000 | 10 | 0.003 | 3 |" in text
    assert "8 tokens a parameter" in text and "0.01 M" in text
    assert "![Validation loss" in text and "(made-up.png)" in text


def test_the_document_names_what_is_missing_or_broken(plan):
    broken = made_up_run("kha", 2, state="diverged", tokens=TOKENS[:2])
    text = document.text(plan, results(*arm("baseline", [1, 2]), *arm("kha", [1], -1), broken), "p")
    assert "- kha, seed 2, diverged" in text and "5 finished" in text and "1 diverged" in text
    assert "**not run** 1: kha below gate" in text and "| no pair | **not run** |" in text
    assert "**reproduced**:" in text and "**reproduced** " not in text.split("## What was run")[0]


def test_the_sweep_marks_the_best_rate_and_says_when_it_is_at_the_edge():
    table = document.sweep_table(example())
    assert table.count("**") == 2 and table.splitlines()[-1].endswith("** |")
    assert "baseline (0.002)" in document.edge_note(example())


def test_two_learning_rates_of_one_ordering_are_shown(plan):
    slow = [{**run, "rate": 0.001} for run in arm("gate", [1, 2])]
    text = document.text(plan, results(*arm("kha", [1, 2], -0.1), *slow), "p")
    assert "| kha < gate | kind | table 2 | 0.003 and 0.001 | 2 |" in text


def test_a_panel_without_pairs_says_so(plan):
    kinds = picture.draw(plan, results(*arm("baseline", [1]), *arm("kha", [1]))).axes[1]
    assert [text.get_text() for text in kinds.texts] == ["no arm has two pairs"]


def test_the_picture_shows_each_arm_and_its_difference(plan):
    figure = picture.draw(plan, example())
    losses, kinds = figure.axes[:2]
    assert [text.get_text() for text in losses.get_legend().get_texts()] == [
        "baseline", "kha", "gate"]
    assert [text.get_text() for text in kinds.get_legend().get_texts()] == ["kha (3 pairs)"]
    (line,) = [line for line in kinds.get_lines() if len(line.get_xdata()) == len(TOKENS)]
    assert list(line.get_xdata()) == TOKENS
    assert line.get_ydata() == pytest.approx([-0.05] * len(TOKENS), abs=0.002)


@pytest.mark.parametrize("old, new, message", [
    ('lower = "kha"\nhigher = "gate"', 'lower = "khaa"\nhigher = "gate"', "the arm `khaa`"),
    ("seeds = [1, 2, 3]", "seeds = [1, 1]", "a run twice: .*baseline-s1"),
    ('rate_of = "baseline" }\ngate', 'rate_of = "gate" }\ngate', "which .sweep. does not try"),
    ("steps = 4\n", "", "has no 'steps'"),
    ("[sweep]", "[sweep", "plan.toml: "),
    ('source = "table 2"', 'sauce = "table 2"', "unexpected keyword argument 'sauce'")])
def test_a_plan_that_cannot_be_meant_is_refused(tmp_path, old, new, message):
    assert old in PLAN
    with pytest.raises(plans.PlanError, match=message):
        read_plan(tmp_path, PLAN.replace(old, new))


def test_seeds_of_a_stage_come_one_after_the_other(plan):
    assert [run.name for run in plan.runs[:4]] == ["baseline-s1", "kha-s1", "gate-s1",
                                                   "baseline-s2"]


@pytest.mark.parametrize("file", sorted((ROOT / "evidence").glob("*.toml")), ids=lambda f: f.stem)
def test_kha_takes_every_arm_of_the_plans(kha, file):
    plan = plans.read(file)
    for each in plan.arms.values():
        words = [word for text in [*plan.sets, *each.sets] for word in ("--set", text)]
        done = kha("train", ROOT / plan.config, *words, "--print-config")
        assert done.returncode == 0, f"{each.name}: {done.stderr}"
