"""The benchmark's own arithmetic on made-up readings, its refusals, and a quick run of it."""

import json
import math
import random
import sys

import pytest

from cpp_tests import ROOT

from bench import child, paired, report, shapes, targets
from bench import __main__ as program


def test_the_best_reading_needs_another_beside_it():
    assert paired.supported_best([90, 99.5, 100, 140]) == 100  # no clock allows 140
    assert paired.supported_best([1.0, 1.001, 0.2], better=min) == 1.0
    assert paired.supported_best([1, 2, 4]) == 2  # none agree: the median
    assert paired.supported_best([7]) == 7


def test_a_paired_ratio_is_untouched_by_what_slows_both():
    random_numbers = random.Random(3)
    load = [random_numbers.uniform(1, 5) for _ in range(40)]
    ours = [2.0 * each * random_numbers.uniform(0.99, 1.01) for each in load]
    theirs = [3.0 * each * random_numbers.uniform(0.99, 1.01) for each in load]
    ratio = paired.paired_ratio(theirs, ours)
    assert ratio.low <= ratio.median <= ratio.high
    assert abs(ratio.median - 1.5) < 0.01 and ratio.high - ratio.low < 0.02
    assert ratio.pairs == 40


def test_the_interval_grows_with_the_scatter_and_covers_the_truth():
    random_numbers = random.Random(5)
    covered, widths = 0, []
    for _ in range(100):
        readings = [random_numbers.gauss(1.02, 0.05) for _ in range(25)]
        ratio = paired.paired_ratio(readings, [1.0] * 25, draws=400)
        covered += ratio.low <= 1.02 <= ratio.high
        widths.append(ratio.high - ratio.low)
    assert covered >= 88  # of 95 expected
    calm = paired.paired_ratio([random_numbers.gauss(1.02, 0.005) for _ in range(25)], [1.0] * 25)
    assert calm.high - calm.low < 0.5 * sum(widths) / len(widths)


def test_readings_that_make_no_pairs_are_refused():
    with pytest.raises(ValueError, match="3 and 2 readings make no pairs"):
        paired.paired_ratio([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="0 and 0"):
        paired.paired_ratio([], [])


def test_each_contender_comes_first_in_turn():
    orders = [paired.rotated(["a", "b", "c"], turn) for turn in range(4)]
    assert [order[0] for order in orders] == ["a", "b", "c", "a"]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def test_useful_work_and_share_of_the_ceiling():
    case = shapes.MapCase("knock_mlp", 4096, 8, 128)
    assert case.useful_flops("forward") == 6 * 128**2 * 32768
    assert case.useful_flops("both") == 18 * 128**2 * 32768
    assert shapes.MapCase("knock_gate", 2, 1, 16).useful_flops("both") == 6 * 16**2 * 2
    assert paired.share_of(50e9, 0.5, 200e9) == 0.5


def test_the_registry_holds_the_issue_shapes():
    assert {case.rows for case in shapes.map_cases() if case.dim == 128 and not case.decode} == {
        4096, 16384, 32768, 65536}
    names = [case.name for case in shapes.map_cases()]
    assert len(names) == len(set(names))
    assert {case.rows for case in shapes.map_cases() if case.decode} == {1, 4, 16}
    assert {case.dim for case in shapes.map_cases()} >= {16, 256}
    for step, tied in ((shapes.MAPS_STEP, False), (shapes.PEER_STEP, True)):
        assert (step.tokens, step.vocab, step.tied) == (4096, 8192, tied)


def products_of(function, *leaves):
    """Operations of the matrix products that forward and backward really make."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as measured:
        function(*leaves).sum().backward()
    flops = 0
    for event in measured.events():
        shapes_ = [shape for shape in event.input_shapes if len(shape) >= 2]
        if event.name in ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise"):
            a, b = shapes_[-2:] if event.name == "aten::addmm" else shapes_[:2]
            columns = b[0] if event.name.startswith("mkldnn") else b[-1]
            flops += 2 * math.prod(a) * columns
    return flops


def test_counted_work_of_the_linear_form(ops):
    """The products in weight space, counted as they run, beside a whole step of the target's model.
    They are the same for any number of tokens."""
    import torch

    case = shapes.MAPS_STEP
    extra = 0
    for heads in (case.heads, case.kv_heads, case.kv_heads):
        x, weight, knock = (torch.ones(*shape, requires_grad=True) for shape in (
            (8, case.width), (heads * case.dim, case.width), (case.dim, case.dim)))
        mapped = products_of(lambda x, w, m: ops.knocked_linear(x, w, None, m), x, weight, knock)
        plain = products_of(torch.nn.functional.linear, x, weight)
        assert plain == 3 * 2 * 8 * case.width * heads * case.dim
        extra += mapped - plain
    assert extra >= 3 * 2 * case.width * case.dim**2 * (case.heads + 2 * case.kv_heads)
    assert 1 + case.layers * extra / case.training_flops() <= 1.009


def test_the_work_of_a_step_is_what_the_engine_counts():
    from bench import steps

    case = shapes.QUICK_MAPS_STEP
    with steps.start_ours(case, 1) as ours:
        assert ours.ready["flops_per_token"] * case.tokens == pytest.approx(case.training_flops())


def map_row(contender, run, threads, share, faster=None, **changes):
    row = {"case": "mlp 32768 x 128", "kind": "knock_mlp", "rows": 32768, "dim": 128,
           "decode": False, "strided": False, "pass": run, "threads": threads,
           "contender": contender, "share_of_ceiling": share, "share_of_bound": share,
           "median_s": 0.02, "best_flops_per_s": 1e11, "saved_bytes": 4, "x_bytes": 4}
    if faster:
        row["ours_is_faster"] = {"median": faster, "low": faster, "high": faster, "pairs": 9}
    return {**row, **changes}


def made_up_result(faster_than_eager):
    rows = [map_row("ours", "forward", 2, 0.85), map_row("ours", "forward", 1, 0.80),
            map_row("torch eager", "forward", 2, 0.4, faster_than_eager, saved_bytes=20),
            map_row("torch eager", "forward", 1, 0.4, 2.0, saved_bytes=20)]
    part = {"allocator": "installed", "rows": rows, "ceiling_flops_per_s": {"1": 1e11, "2": 2e11},
            "copy_bytes_per_s": 1e10, "rounds": 9}
    step = {"case": shapes.MAPS_STEP.name, "contender": "kha-mlp", "against": "baseline",
            "time_ratio": {"median": 1.05, "low": 1.0, "high": 1.1, "pairs": 9},
            "peak_ratio": 1.02, "faults_most": 12, "faults_median": 3, "seconds": [1, 1],
            "median_s": 1, "tokens_per_s": 4096, "peak_bytes": 1e9}
    machine = {"cpu": "a CPU", "cores": 2, "threads": 2, "instruction_set": "avx2",
               "cpu_implementation": "avx2", "torch": "2", "commit": "c", "date": "d",
               "command": "scripts/bench"}
    return {"machine": machine, "maps": [part], "steps": {"maps": [step]}}


def test_targets_are_judged_by_what_was_measured():
    judged = {row["target"]: row for row in targets.judge_all(made_up_result(2.1))}
    assert judged["mlp map forward, share of the ceiling"]["state"] == "reached"
    assert judged["mlp map forward, one thread"]["state"] == "NOT REACHED"
    assert judged["mlp map forward against torch eager"]["value"] == 2.1
    assert judged["step with KHA-MLP against baseline"]["state"] == "NOT REACHED"
    assert judged["peak memory with KHA-MLP against baseline"]["state"] == "reached"
    assert judged["step faster than transformers as installed"]["state"] == "not measured"


def test_losing_cases_are_named():
    assert targets.losing(made_up_result(2.1)) == []
    (line,) = targets.losing(made_up_result(0.8))
    assert "map mlp 32768 x 128, forward, 2 threads" in line and "0.80 of our time" in line


@pytest.mark.parametrize("markdown", [False, True])
def test_the_report_holds_every_figure(markdown):
    text = report.text(made_up_result(0.8), markdown)
    for part in ("0.850", "0.80 [0.80, 0.80]", "1.05 [1.00, 1.10] of baseline", "NOT REACHED",
                 "Where kha is behind", "scripts/bench"):
        assert part in text
    assert ("| mlp 32768 x 128 | forward | 2 |" in text) == markdown


def test_tables_go_into_the_document_at_their_mark(tmp_path, capsys):
    result, document = tmp_path / "r.json", tmp_path / "performance.md"
    result.write_text(json.dumps(made_up_result(2.1)))
    text = (ROOT / "docs" / "performance.md").read_text()
    document.write_text(text)
    for _ in range(2):  # the second time it replaces what the first put in
        assert program.main(["--from", str(result), "--into", str(document)]) == 0
    new = document.read_text()
    assert new.count("### Must reach") == 1 and new.startswith(text.split("<!-- avx2 -->")[0])
    assert new.split("## AVX-512")[1] == text.split("## AVX-512")[1]
    document.write_text("no marks")
    assert program.main(["--from", str(result), "--into", str(document)]) == 2
    assert "it needs the lines `<!-- avx2 -->`" in capsys.readouterr().err


def wrong_mlp(kind):
    """Right for every map but mlp, whose dx is off by a thousandth of the gradient."""
    from bench import contenders

    right = contenders.composition(kind)

    def wrong(x, *maps):
        y = right(x, *maps)
        return y if kind != "knock_mlp" else y + 1e-3 * (x - x.detach())

    return wrong


def test_a_wrong_operator_stops_everything(tmp_path, capsys):
    """Even though its values are right to the last bit."""
    from bench import contenders

    code = program.main(["--quick", "--only", "maps", "--out", str(tmp_path)],
                        {"ours": wrong_mlp, "torch eager": contenders.composition})
    printed = capsys.readouterr()
    assert code == 1 and printed.out == "" and not list(tmp_path.iterdir())
    assert "parity is red, so nothing is timed" in printed.err
    assert "mlp 256 x 32: ours: dx differs from the double composition" in printed.err
    assert "linear" not in printed.err.split("nothing is timed")[1]


def test_a_quick_run_writes_what_it_measured(tmp_path, capsys):
    file = tmp_path / "result" / "all.json"
    code = program.main(["--quick", "--only", "maps", "--only", "head", "--rounds", "2",
                         "--json", str(file), "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert code == 0
    result = json.loads(file.read_text())
    assert result["parity"] == "green" and result["machine"]["command"].startswith("scripts/bench")
    rows = result["maps"][0]["rows"]
    wanted = {(case.name, run) for case in shapes.quick_map_cases() for run in case.passes}
    assert {(row["case"], row["pass"]) for row in rows} == wanted
    for row in rows:
        assert len(row["windows_s"]) == 2 and min(row["windows_s"]) > 0
        assert 0 < row["best_s"] <= max(row["windows_s"]) and row["share_of_ceiling"] > 0
        assert row["contender"] == "ours" or row["ours_is_faster"]["pairs"] == 2
        if row["pass"] == "both" and row["contender"] == "ours":
            assert row["saved_bytes"] == row["x_bytes"]
    head = {row["contender"]: row for row in result["head"]}
    assert head["torch eager"]["peak_bytes"] > head["torch eager"]["needed_bytes"]
    for name in ("bench.png", "bench.svg"):
        assert (tmp_path / name).stat().st_size > 10000 and name in printed
    assert program.main(["--from", str(file), "--markdown"]) == 0
    assert "| mlp 256 x 32 | forward |" in capsys.readouterr().out


def test_a_child_answers_and_its_last_words_are_shown():
    speak = ("import sys; print('warning: loud'); print('{\"ready\": true}', flush=True); "
             "print(sys.stdin.readline().strip(), flush=True); sys.exit('error: no such thing')")
    with child.Child("speaker", [sys.executable, "-c", speak]) as speaker:
        assert speaker.ready == {"ready": True}
        assert speaker.ask('{"a": 1}') == {"a": 1}
        with pytest.raises(child.ChildError, match="speaker ended with code 1.*\n.*\n.*no such thing"):
            speaker.ask("more")


def test_a_childs_environment_takes_away_and_adds(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "inherited")
    assert "GLIBC_TUNABLES" not in child.environment({"GLIBC_TUNABLES": None})
    assert child.environment({"GLIBC_TUNABLES": "x"})["GLIBC_TUNABLES"] == "x"
    assert child.environment({})["GLIBC_TUNABLES"] == "inherited"


def test_the_step_of_kha_is_that_of_transformers():
    """Three steps: losses and gradient norms of both, against transformers in float64."""
    from bench import steps

    assert steps.check_peer_parity(shapes.QUICK_PEER_STEP, threads=1) == []


def test_another_learning_rate_would_be_seen(monkeypatch):
    """The parity of the step is no formality: with a rate 5 % off it is red at the second step."""
    from bench import steps

    right = steps.settings
    monkeypatch.setattr(steps, "settings", lambda *a: [*right(*a), "--set", "optimizer.lr=1.05e-3"])
    complaints = steps.check_peer_parity(shapes.QUICK_PEER_STEP, threads=1)
    assert complaints and all("kha" in line and "step 1" not in line.split(": ")[-1]
                              for line in complaints)


def test_steps_with_maps_take_turns_and_report():
    from bench import steps
    from bench.progress import Progress

    rows = steps.measure_maps(shapes.QUICK_MAPS_STEP, 1, 3, Progress("steps", 9),
                              shapes.map_variants)
    assert [row["contender"] for row in rows] == ["baseline", "kha-linear", "kha-mlp"]
    assert all(len(row["seconds"]) == len(row["faults"]) == 3 for row in rows)
    assert "time_ratio" not in rows[0] and rows[2]["time_ratio"]["pairs"] == 3
    assert rows[0]["runs_on"]["threads"] == "1"


def test_every_system_has_the_maths_of_its_peers():
    """Three steps of each: losses and gradient norms beside torch's and transformers' attention."""
    import tempfile
    from contextlib import ExitStack
    from pathlib import Path

    from bench import steps

    for case in shapes.system_cases(shapes.QUICK_MAPS_STEP):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            ours = stack.enter_context(steps.start_ours(case, 1))
            ours.ask(f"save {Path(folder) / 'model'}")
            others = [stack.enter_context(steps.start_peer(Path(folder) / "model", 1, name, peer=peer))
                      for name, peer in steps.SYSTEM_PEERS[case.attention].items()]
            assert steps.parity_steps(case, ours, others) == []


def test_decode_steps_agree_in_every_form_and_are_compared():
    from bench import decode
    from bench.progress import Progress

    case = shapes.QUICK_DECODE
    complaints, rows = decode.measure(case, 1, 2, Progress("decode", 10))
    assert complaints == []
    assert [(row["contender"], row["form"]) for row in rows] == list(decode.RUNS)
    by_run = {(row["contender"], row["form"]): row for row in rows}
    assert by_run["kha", "absorbed"]["cache_bytes_a_token"] == 4 * (case.latent + case.rotated)
    assert by_run["kha", "kept"]["cache_bytes_a_token"] == 4 * case.heads * (2 * case.dim + case.rotated)
    assert by_run[decode.FORMED]["faster_than_formed"]["median"] == 1
    assert all(len(row["seconds"]) == 2 for row in rows)
    table = report.decode_table(rows, markdown=True)
    assert "| kha, absorbed |" in table and "| torch, formed |" in table


def test_a_decode_form_that_is_wrong_stops_its_timing(monkeypatch):
    from bench import decode
    from bench.progress import Progress

    right = decode.Child.ask

    def wrong(self, command):
        answer = right(self, command)
        if (self.name, command) == ("kha", "steps 1 absorbed"):
            answer["output"][3] += 1e-3 * max(map(abs, answer["output"]))
        return answer

    monkeypatch.setattr(decode.Child, "ask", wrong)
    complaints, rows = decode.measure(shapes.QUICK_DECODE, 1, 2, Progress("decode", 10))
    assert rows == [] and len(complaints) == 1 and "kha, absorbed: differs from float64" in complaints[0]


def test_the_slowest_system_and_the_decode_are_judged():
    def row(case, contender, ratio):
        return {"case": case, "contender": contender, "time_ratio": {"median": ratio}, "peak_ratio": 2}

    result = {"machine": {"threads": 2}, "steps": {"systems": [
        row("mla", "torch", 0.8), row("mla", "transformers", 2.0), row("gta", "torch", 1.1)]},
        "decode": [{"contender": "kha", "form": "absorbed", "faster_than_formed": {"median": 40}}]}
    assert targets.slowest_system(result) == pytest.approx(1 / 0.8)
    assert targets.absorbed_speedup(result) == 40
    assert targets.slowest_system({}) is None and targets.absorbed_speedup({}) is None


def test_files_are_raced_beside_bare_calls_and_judged():
    from bench import files
    from bench.progress import Progress

    rows = files.measure(shapes.QUICK_FILES, 2, Progress("files", 32))
    names = {row["contender"] for row in rows}
    assert {"kha, large file", "kha, 1000 tensors", "write calls + fsync", "insert", "fold",
            "export as stored", "safetensors + fsync"} <= names
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in rows)
    opened = {row["contender"]: row for row in rows if row["case"].startswith("open")}
    assert opened["kha, large file"]["faults"] <= opened["kha, small file"]["faults"] + 4
    surgery = [row for row in rows if "shard_bytes" in row]
    assert len(surgery) == 5 and surgery[0]["shard_bytes"] <= shapes.QUICK_FILES.shard_bytes + 4096
    judged = {row["target"]: row for row in targets.judge_all({
        "machine": {"threads": 1, "instruction_set": "avx2"}, "files": rows})}
    for name in ("saving against write + fsync", "fold against a copy"):
        assert judged[name]["value"] > 0
    assert "| fold |" in report.files_table(rows, markdown=True)


def test_reading_many_tensors_is_judged_by_its_slowdown():
    row = {"case": "read 41 MB", "contender": f"kha, {shapes.FILES.read_tensors} tensors",
           "faster": {"median": 0.4}}
    assert targets.many_against_one({"files": [row]}) == pytest.approx(2.5)
    assert targets.many_against_one({}) is None
    target = next(each for each in targets.TARGETS if each.name.startswith("reading 10,000"))
    assert target.judge({"files": [row]})["state"] == "NOT REACHED"
