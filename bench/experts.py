"""Mixtures of experts: a layer against a dense one, and the training step against transformers.

python -m bench.experts [--rounds N] [--threads N] [--quick] [--out FILE]

Contenders take turns in processes of their own; times are the best of all rounds, and ratios the
median of the rounds' own. Nothing is timed before losses and gradient norms agree.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.child import Child
from bench.machine import ROOT
from bench.shapes import PEER_STEP, QUICK_PEER_STEP
from bench.steps import OPTIMIZER, WARM_UP, parity_steps, settings

KHA = str(ROOT / ".venv/bin/kha")
# Those of transformers 5 that a CPU has; batched_mm copies the matrices of every token.
IMPLEMENTATIONS = ("eager", "grouped_mm")
BARS = {"block": 0.70, "time": 1.3, "memory": 0.6}


@dataclass(frozen=True)
class Experts:
    count: int = 64
    active: int = 4
    width: int = 384


def start_ours(case, experts, threads):
    values = {"count": experts.count, "active": experts.active, "width": experts.width,
              "router": '"softmax"'}
    words = [word for key, value in values.items()
             for word in ("--set", f"model.experts.{key}={value}")]
    return Child("kha", [KHA, "bench-step", *map(str, settings(case, threads)), *words,
                         "--vocabulary", str(case.vocab)])


def start_peer(model, threads, implementation):
    options = {"model": model, "threads": threads, "experts": implementation, **OPTIMIZER}
    command = [sys.executable, "-m", "bench.hf_step"]
    for key, value in options.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    return Child(f"transformers, {implementation}", command, cwd=ROOT)


def block(experts, hidden, tokens, rounds, threads):
    """Useful FLOP/s of the mixture over those of a dense layer, round by round."""
    words = {"experts": experts.count, "active": experts.active, "width": experts.width,
             "hidden": hidden, "tokens": tokens, "rounds": rounds, "threads": threads}
    command = [KHA, "bench-experts", *(f"--{key}={value}" for key, value in words.items())]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    pairs = list(zip(result["mixture_seconds"], result["dense_seconds"]))
    result["ratio"] = median(dense / mixture for mixture, dense in pairs)
    result["best_ratio"] = min(dense for _, dense in pairs) / min(mixture for mixture, _ in pairs)
    return result


def fastest_peer(model, threads, stack, batch):
    """The implementation whose third step is fastest; each is alone in memory for it."""
    seconds = {}
    for name in IMPLEMENTATIONS:
        with start_peer(model, threads, name) as peer:
            peer.ask("batch " + batch)
            seconds[name] = peer.ask(f"steps {WARM_UP}")["seconds"][-1]
    best = min(seconds, key=seconds.get)
    return stack.enter_context(start_peer(model, threads, best)), seconds


def step(case, experts, rounds, threads):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, experts, threads))
        ours.ask(f"save {model}")
        peer, implementations = fastest_peer(model, threads, stack, json.dumps(ours.ask("batch")))
        complaints = parity_steps(case, ours, [peer])
        if complaints:
            sys.exit("parity is red, so nothing is timed:\n  " + "\n  ".join(complaints))
        results = {child.name: [] for child in (ours, peer)}
        for turn in range(rounds):
            for child in ((ours, peer) if turn % 2 == 0 else (peer, ours)):
                results[child.name].append(child.ask("steps 1"))
    seconds = {name: [r["seconds"][0] for r in rows] for name, rows in results.items()}
    peaks = {name: rows[-1]["peak_bytes"] for name, rows in results.items()}
    return {"case": case.name, "seconds": seconds, "peak_bytes": peaks,
            "implementations": implementations,
            "time_ratio": median(b / a for a, b in zip(seconds[ours.name], seconds[peer.name])),
            "memory_ratio": peaks[ours.name] / peaks[peer.name]}


def verdict(value, bar, at_least=True):
    return "reached" if (value >= bar if at_least else value <= bar) else "NOT REACHED"


def text(result):
    rows = []
    if "block" in result:
        b = result["block"]
        best = min(b["mixture_seconds"])
        rows.append(f"block: {b['useful_flops'] / best / 1e9:.1f} GFLOP/s on {b['threads']} "
                    f"threads, {b['ratio']:.2f} of a dense layer's (bar {BARS['block']}): "
                    f"{verdict(b['ratio'], BARS['block'])}")
    if "step" in result:
        s = result["step"]
        rows.append(f"step {s['case']}: transformers' fastest takes {s['time_ratio']:.2f} of our "
                    f"time (bar {BARS['time']}): {verdict(s['time_ratio'], BARS['time'])}")
        rows.append(f"peak memory: {s['memory_ratio']:.2f} of transformers' (bar "
                    f"{BARS['memory']}): {verdict(s['memory_ratio'], BARS['memory'], False)}")
    return "\n".join(rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m bench.experts")
    parser.add_argument("parts", nargs="*", default=["block", "step"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small shapes, for a look")
    parser.add_argument("--out", type=Path, help="where the figures go as JSON")
    options = parser.parse_args(arguments)
    experts = Experts(8, 2, 48) if options.quick else Experts()
    case = QUICK_PEER_STEP if options.quick else replace(PEER_STEP, name="4 x d 512, 64 experts",
                                                         layers=4)
    result = {}
    if "block" in options.parts:
        hidden, tokens = (case.width, case.tokens) if options.quick else (512, 8192)
        result["block"] = block(experts, hidden, tokens, options.rounds, options.threads)
    if "step" in options.parts:
        result["step"] = step(case, experts, options.rounds, options.threads)
    print(text(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
