"""A decode step of MLA from its cache: absorbed, with keys and values formed anew, and with a cache
of all keys and values. kha and a straight composition in torch take turns, each in its own process.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.child import Child
from bench.machine import ROOT
from bench.paired import paired_ratio, rotated, supported_best

# (contender, form); what the others are compared with comes first.
FORMED = ("kha", "formed")
RUNS = (FORMED, ("kha", "absorbed"), ("kha", "kept"), ("torch", "formed"), ("torch", "absorbed"))


def start_ours(case, threads):
    values = {
        "model.hidden_size": case.width, "model.num_attention_heads": case.heads,
        "model.num_key_value_heads": case.heads, "model.head_dim": case.dim,
        "model.attention": '"mla"', "model.latent_heads": 1, "model.kv_latent": case.latent,
        "model.rope_head_dim": case.rotated, "model.query_latent": case.query_latent,
        "knock.setting": '"baseline"', "train.threads": threads}
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return Child("kha", [str(ROOT / ".venv/bin/kha"), "bench-decode", *words,
                         "--positions", str(case.positions), "--batch", str(case.batch)])


def start_torch(case, model, threads):
    return Child("torch", [sys.executable, "-m", "bench.torch_decode", "--model", str(model),
                           "--threads", str(threads), "--batch", str(case.batch),
                           "--positions", str(case.positions)], cwd=ROOT)


def parity(children):
    """Complaints: each run may err twice as far as torch's float32 does where it forms keys and
    values, and by four roundings of the largest value."""
    exact = children["torch"].ask("steps 1 exact")["output"]
    size = max(map(abs, exact))

    def error(name, form):
        output = children[name].ask(f"steps 1 {form}")["output"]
        if len(output) != len(exact):
            return float("inf")
        return max(abs(a - b) for a, b in zip(output, exact))

    limit = 2 * error("torch", "formed") + 4 * 2.0 ** -23 * size
    errors = {run: error(*run) for run in RUNS}
    return [f"decode: {name}, {form}: differs from float64 by {value:.3g}, allowed {limit:.3g}"
            for (name, form), value in errors.items() if not value <= limit]


def measure(case, threads, rounds, progress):
    """(complaints, rows)"""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, threads))
        ours.ask(f"save {model}")
        children = {"kha": ours, "torch": stack.enter_context(start_torch(case, model, threads))}
        complaints = parity(children)
        if complaints:
            return complaints, []
        for name, form in RUNS:
            children[name].ask(f"steps 2 {form}")
        results = {run: [] for run in RUNS}
        for turn in range(rounds):
            for run in rotated(list(RUNS), turn):
                results[run].append(children[run[0]].ask(f"steps 1 {run[1]}"))
                progress.advance(" ".join(run))
        return [], rows_of(case, results, ours.ready["flops"])


def rows_of(case, results, absorbed_flops):
    rows, formed = [], [each["seconds"][0] for each in results[FORMED]]
    for (name, form), made in results.items():
        seconds = [each["seconds"][0] for each in made]
        rows.append({
            "case": case.name, "contender": name, "form": form, "seconds": seconds,
            "median_s": median(seconds), "best_s": supported_best(seconds, better=min),
            "cache_bytes": made[0]["cache_bytes"], "batch": case.batch,
            "cache_bytes_a_token": made[0]["cache_bytes"] / case.batch / (case.positions + 1),
            "faster_than_formed": vars(paired_ratio(formed, seconds))})
        if (name, form) == ("kha", "absorbed"):
            rows[-1]["flops_per_s"] = absorbed_flops / rows[-1]["best_s"]
    return rows
