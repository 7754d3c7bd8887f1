"""The training step: kha beside transformers, and kha's maps beside its own baseline.

Each contender is a process of its own that makes steps on demand, so that they take turns. The
first steps are the parity check and the warming up: same weights, same batches, same losses.
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.child import Child
from bench.machine import ROOT
from bench.paired import paired_ratio, rotated, supported_best

OPTIMIZER = {"lr": 1e-3, "weight_decay": 0.1, "clip": 1.0}
# Steps before the timed ones; faults are judged after the third.
WARM_UP = 3
# What a user sets to make glibc keep freed memory, on huge pages.
KEPT = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
        "glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864")
OURS, PEER, PEER_KEPT = "kha", "transformers", "transformers, memory kept"


def settings(case, threads):
    """--set arguments of bench-step."""
    values = {
        "model.hidden_size": case.width, "model.intermediate_size": case.ffn,
        "model.num_hidden_layers": case.layers, "model.num_attention_heads": case.heads,
        "model.num_key_value_heads": case.kv_heads, "model.head_dim": case.dim,
        "model.tie_word_embeddings": str(case.tied).lower(),
        "model.attention": f'"{case.attention}"',
        **{f"model.{key}": value for key, value in case.parts},
        "knock.setting": f'"{case.setting}"', "train.context": case.context,
        "train.batch": case.batch, "train.accumulate": 1, "train.steps": 1000000,
        "train.precision": '"fp32"', "train.threads": threads,
        "schedule.kind": '"constant"', "schedule.warmup_steps": 0,
        "optimizer.lr": OPTIMIZER["lr"], "optimizer.clip": OPTIMIZER["clip"],
        "optimizer.weight_decay": OPTIMIZER["weight_decay"],
    }
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def start_ours(case, threads, name=OURS):
    command = [ROOT / ".venv/bin/kha", "bench-step", *settings(case, threads),
               "--vocabulary", str(case.vocab)]
    return Child(name, [str(word) for word in command])


def start_peer(model, threads, name=PEER, dtype="float32", kept=False, peer="qwen3"):
    """`kept` tells glibc to keep freed memory; else its settings are those of an installation."""
    options = {"model": model, "threads": threads, "dtype": dtype, "peer": peer, **OPTIMIZER}
    command = [sys.executable, "-m", "bench.hf_step"]
    for key, value in options.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    return Child(name, command, {"GLIBC_TUNABLES": KEPT if kept else None}, cwd=ROOT)


def close_to(value, expected, tolerance):
    return abs(value - expected) <= tolerance * abs(expected)


def parity_steps(case, ours, others, count=WARM_UP):
    """Complaints of `count` steps from equal weights on equal batches, reference `others[-1]`.

    The losses of the later steps show that gradients, clipping and updates agree too. Their
    differences grow with rounding; a wrong decay, rate or clip moves them by far more.
    """
    complaints = []
    for step in range(1, count + 1):
        batch = json.dumps(ours.ask("batch"))
        results = {}
        for child in others:
            child.ask("batch " + batch)
            results[child.name] = child.ask("steps 1")
        results[ours.name] = ours.ask("steps 1")
        reference = results[others[-1].name]
        for name, result in results.items():
            for key, tolerance in (("loss", 2e-5 * step), ("norm", 2e-4 * step)):
                if not close_to(result[key][0], reference[key][0], tolerance):
                    complaints.append(
                        f"step {case.name}: {name}: {key} of step {step} is {result[key][0]:.7g}, "
                        f"{others[-1].name} has {reference[key][0]:.7g}")
    return complaints


def check_peer_parity(case, threads):
    """kha and transformers against transformers in float64, on a small relative."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, threads))
        ours.ask(f"save {model}")
        others = [stack.enter_context(start_peer(model, threads)),
                  stack.enter_context(start_peer(model, threads, "transformers in float64",
                                                 dtype="float64"))]
        return parity_steps(case, ours, others)


def check_map_parity(case, threads, variants):
    """At the identity start every setting has the baseline's loss."""
    with ExitStack() as stack:
        children = [stack.enter_context(start_ours(variant, threads, variant.setting))
                    for variant in variants(case)]
        losses = {child.name: child.ask("steps 1")["loss"][0] for child in children}
    base = losses["baseline"]
    return [f"step {case.name}: {name}: the first loss is {loss:.7g}, the baseline has {base:.7g}"
            for name, loss in losses.items() if not close_to(loss, base, 2e-5)]


def take_turns(children, rounds, progress, detail):
    """One step each, in rotating order, `rounds` times."""
    results = {child.name: [] for child in children}
    if not progress.done:
        progress.start()
    for turn in range(rounds):
        for child in rotated(children, turn):
            results[child.name].append(child.ask("steps 1"))
            progress.advance(f"{detail}: {child.name}")
    return results


def describe(case, child, results):
    """One row: a contender's timed steps."""
    seconds = [result["seconds"][0] for result in results]
    faults = [result["faults"][0] for result in results]
    return {
        "case": case.name, "setting": case.setting, "tokens": case.tokens, "heads": case.heads,
        "contender": child.name, "seconds": seconds, "median_s": median(seconds),
        "best_s": supported_best(seconds, better=min),
        "tokens_per_s": case.tokens / median(seconds),
        "faults": faults, "faults_median": median(faults), "faults_most": max(faults),
        "peak_bytes": max(result["peak_bytes"] for result in results),
        "runs_on": child.ready.get("runs_on"),
    }


def with_ratios(rows, base_name):
    """Adds what each row's step costs relative to that of `base_name`, in time and memory."""
    base = next(row for row in rows if row["contender"] == base_name)
    for row in rows:
        if row is not base:
            row["against"] = base_name
            row["time_ratio"] = vars(paired_ratio(row["seconds"], base["seconds"]))
            row["peak_ratio"] = row["peak_bytes"] / base["peak_bytes"]
    return rows


def measure_peer(case, threads, rounds, progress, kept=True):
    """(complaints, rows): kha, transformers as installed and, with `kept`, told to keep memory."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, threads))
        ours.ask(f"save {model}")
        others = [stack.enter_context(start_peer(model, threads, PEER_KEPT, kept=True))
                  ] if kept else []
        others.append(stack.enter_context(start_peer(model, threads)))
        children = [ours, *others]
        for child in children:
            child.ask("reset-peak")
        complaints = parity_steps(case, ours, others)
        if complaints:
            return complaints, []
        results = take_turns(children, rounds, progress, case.name)
        rows = [describe(case, child, results[child.name]) for child in children]
        return [], with_ratios(rows, OURS)


# Whose attention stands beside each of ours. transformers' MLA attends unfused where values are
# narrower than keys.
SYSTEM_PEERS = {"gqa": {PEER: "qwen3"}, "gta": {"torch": "straight"}, "gla": {"torch": "straight"},
                "mla": {"torch": "straight", PEER: "deepseek"}, "talking": {"torch": "straight"},
                "collaborative": {"torch": "straight"}}


def measure_system(case, threads, rounds, progress):
    """(complaints, rows): one attention system's step beside its peers'."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, threads))
        ours.ask(f"save {model}")
        others = [stack.enter_context(start_peer(model, threads, name, peer=peer))
                  for name, peer in SYSTEM_PEERS[case.attention].items()]
        for child in [ours, *others]:
            child.ask("reset-peak")
        complaints = parity_steps(case, ours, others)
        if complaints:
            return complaints, []
        results = take_turns([ours, *others], rounds, progress, case.name)
        rows = [describe(case, child, results[child.name]) for child in [ours, *others]]
        return [], with_ratios(rows, OURS)


def measure_maps(case, threads, rounds, progress, variants):
    """Rows of the baseline and of the settings with maps, all in kha."""
    with ExitStack() as stack:
        cases = variants(case)
        children = [stack.enter_context(start_ours(each, threads, each.setting)) for each in cases]
        for child in children:
            child.ask("reset-peak")
            child.ask(f"steps {WARM_UP}")
        results = take_turns(children, rounds, progress, case.name)
        rows = [describe(each, child, results[child.name])
                for each, child in zip(cases, children)]
        return with_ratios(rows, "baseline")
