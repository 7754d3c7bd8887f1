"""Mixtures of experts: a layer against a dense one, the training step against transformers, and
what maps cost in it.

python -m bench.experts [block] [step] [maps] [--rounds N] [--threads N] [--quick] [--out FILE]

Contenders take turns round by round, each in a process of its own (the block's two in one), and
every ratio is the median of the rounds' own with its 95 % interval. Nothing is timed before losses
and gradient norms agree. The machine's noise stands beside the figures: how far two neighbouring
readings of one contender are apart. Some five minutes on two cores that do nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.child import Child
from bench.machine import ROOT
from bench.paired import paired_ratio, rotated
from bench.shapes import PEER_STEP, QUICK_PEER_STEP
from bench.steps import OPTIMIZER, parity_steps, settings

KHA = str(ROOT / ".venv/bin/kha")
# Those of transformers 5 that a CPU has; batched_mm copies the matrices of every token.
IMPLEMENTATIONS = ("eager", "grouped_mm")


@dataclass(frozen=True)
class Bar:
    """What a ratio must reach."""

    name: str
    value: float
    at_least: bool = True

    def reached(self, ratio):
        return ratio >= self.value if self.at_least else ratio <= self.value

    def line(self, ratio, detail=""):
        side = "at least" if self.at_least else "at most"
        number = ratio if isinstance(ratio, float) else ratio.median
        verdict = "reached" if self.reached(number) else "NOT REACHED"
        shown = f"{ratio:.3f}" if isinstance(ratio, float) else str(ratio)
        return f"{self.name}: {shown}{detail} ({side} {self.value}): {verdict}"


BLOCK = Bar("block, useful FLOP/s against a dense layer's", 0.70)
TIME = Bar("step, transformers' time against ours", 1.3)
MEMORY = Bar("step, peak memory against transformers'", 0.6, at_least=False)
MAPS = Bar("step with KHA-MLP against its baseline", 1.03, at_least=False)


@dataclass(frozen=True)
class Experts:
    count: int = 64
    active: int = 4
    width: int = 384


def start_ours(case, experts, threads, name="kha"):
    """bench-step of a mixture, or of the dense model where `experts` is None."""
    values = {} if experts is None else {"count": experts.count, "active": experts.active,
                                         "width": experts.width, "router": '"softmax"'}
    words = [word for key, value in values.items()
             for word in ("--set", f"model.experts.{key}={value}")]
    return Child(name, [KHA, "bench-step", *map(str, settings(case, threads)), *words,
                        "--vocabulary", str(case.vocab)])


def start_peer(model, threads, implementation):
    options = {"model": model, "threads": threads, "experts": implementation, **OPTIMIZER}
    command = [sys.executable, "-m", "bench.hf_step"]
    for key, value in options.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    return Child(f"transformers, {implementation}", command, cwd=ROOT)


def noise(seconds):
    """How far neighbouring readings of one contender are apart, the median, as a share."""
    steps = [abs(b / a - 1) for a, b in zip(seconds, seconds[1:])]
    return median(steps) if steps else 0.0


def take_turns(children, rounds):
    """Seconds of one step each, in rotating order, and the last answers."""
    seconds, last = {child.name: [] for child in children}, {}
    for turn in range(rounds):
        for child in rotated(children, turn):
            last[child.name] = child.ask("steps 1")
            seconds[child.name] += last[child.name]["seconds"]
    return seconds, last


def block(experts, hidden, tokens, rounds, threads):
    """A mixture's useful FLOP/s against those of a dense layer, round by round."""
    words = {"experts": experts.count, "active": experts.active, "width": experts.width,
             "hidden": hidden, "tokens": tokens, "rounds": rounds, "threads": threads}
    command = [KHA, "bench-experts", *(f"--{key}={value}" for key, value in words.items())]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    mixture, dense = result["mixture_seconds"], result["dense_seconds"]
    result["ratio"] = vars(paired_ratio(dense, mixture))
    result["best_ratio"] = min(dense) / min(mixture)
    text = (f", best against best {result['best_ratio']:.3f}, "
            f"{result['useful_flops'] / min(mixture) / 1e9:.0f} GFLOP/s on {result['threads']} "
            f"threads, noise {noise(dense):.0%}")
    return result, [BLOCK.line(paired_ratio(dense, mixture), text)]


def fastest_peer(model, threads, batch):
    """The implementation whose second step is fastest, and all of them; each is alone in memory."""
    seconds = {}
    for name in IMPLEMENTATIONS:
        with start_peer(model, threads, name) as peer:
            peer.ask("batch " + batch)
            seconds[name] = peer.ask("steps 2")["seconds"][-1]
    return min(seconds, key=seconds.get), seconds


def step(case, experts, rounds, threads):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "model"
        ours = stack.enter_context(start_ours(case, experts, threads))
        ours.ask(f"save {model}")
        best, implementations = fastest_peer(model, threads, json.dumps(ours.ask("batch")))
        peer = stack.enter_context(start_peer(model, threads, best))
        for child in (ours, peer):
            child.ask("reset-peak")
        complaints = parity_steps(case, ours, [peer], count=2)
        if complaints:
            sys.exit("parity is red, so nothing is timed:\n  " + "\n  ".join(complaints))
        seconds, last = take_turns([ours, peer], rounds)
    peaks = {name: answer["peak_bytes"] for name, answer in last.items()}
    times = paired_ratio(seconds[peer.name], seconds[ours.name])
    memory = peaks[ours.name] / peaks[peer.name]
    result = {"case": case.name, "seconds": seconds, "peak_bytes": peaks,
              "implementations": implementations, "time_ratio": vars(times),
              "best_ratio": min(seconds[peer.name]) / min(seconds[ours.name]),
              "memory_ratio": memory}
    text = (f", best against best {result['best_ratio']:.3f}, {case.name}, {best}, ours "
            f"{median(seconds[ours.name]):.2f} s, noise {noise(seconds[ours.name]):.0%}")
    return result, [TIME.line(times, text), MEMORY.line(
        memory, f", {peaks[ours.name] / 1e6:.0f} MB of {peaks[peer.name] / 1e6:.0f} MB")]


def maps(case, experts, rounds, threads):
    """KHA-MLP's step against its baseline's, on the mixture and on the dense model."""
    results, lines = {}, []
    for kind, own in (("mixture", experts), ("dense", None)):
        with ExitStack() as stack:
            children = [stack.enter_context(start_ours(replace(case, setting=setting), own, threads,
                                                       setting))
                        for setting in ("baseline", "kha-mlp")]
            for child in children:
                child.ask("steps 1")
            seconds, _ = take_turns(children, rounds)
        ratio = paired_ratio(seconds["kha-mlp"], seconds["baseline"])
        best = min(seconds["kha-mlp"]) / min(seconds["baseline"])
        results[kind] = {"case": case.name, "seconds": seconds, "ratio": vars(ratio),
                         "best_ratio": best}
        lines.append(MAPS.line(ratio, f", best against best {best:.3f}, {kind}, {case.name}, noise "
                                      f"{noise(seconds['baseline']):.0%}"))
    return results, lines


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m bench.experts")
    parser.add_argument("parts", nargs="*", default=["block", "step", "maps"],
                        help="block, step, maps; all where none is named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small shapes, for a look")
    parser.add_argument("--out", type=Path, help="where the figures go as JSON")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - {"block", "step", "maps"}:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are block, step and maps")
    experts = Experts(8, 2, 48) if options.quick else Experts()
    case = QUICK_PEER_STEP if options.quick else replace(PEER_STEP, name="4 x d 512, 64 experts",
                                                         layers=4)
    small = case if options.quick else replace(case, name="2 x d 512, 2,048 tokens", layers=2,
                                               batch=2)
    hidden, tokens = (case.width, case.tokens) if options.quick else (512, 8192)
    rounds, threads = options.rounds, options.threads
    run = {"block": lambda: block(experts, hidden, tokens, 2 * rounds, threads),
           "step": lambda: step(case, experts, rounds, threads),
           "maps": lambda: maps(small, experts, 2 * rounds, threads)}
    result, lines = {"load_before": os.getloadavg()}, []
    for part in options.parts:
        result[part], own = run[part]()
        print("\n".join(own), flush=True)
        lines += own
    result["load_after"] = os.getloadavg()
    behind = [line for line in lines if line.endswith("NOT REACHED")]
    print(f"bars not reached: {len(behind)} of {len(lines)}; load of the machine "
          f"{result['load_before'][0]:.1f} before, {result['load_after'][0]:.1f} after")
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
