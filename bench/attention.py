"""Causal attention in a training step: kha's kernels against torch's flash attention.

python -m bench.attention [--rounds N] [--threads N] [--quick]

Both run in one process and take turns; every ratio is the median of the rounds' own with its 95 %
interval. Nothing is timed before both agree with float64. GFLOP/s count what the mathematics needs
of the pairs that see one another: 2 (D + D_v) forward and 6 D + 4 D_v backward (one formation of
the scores among them). Some two minutes on two cores that do nothing else.
"""

import argparse
import math
import os
import sys
from dataclasses import dataclass

from bench.child import Child
from bench.counts import build_dir
from bench.paired import paired_ratio, rotated
from bench.products import TUNABLES

CONTENDERS = ("kha", "torch")
LARGEST_DIFFERENCE = 2e-5  # of each result's largest value


@dataclass(frozen=True)
class Case:
    what: str
    batch: int
    length: int
    heads: int
    kv_heads: int
    dim: int
    value_dim: int
    before: int = 0  # positions in front of the queries

    @property
    def command(self):
        return (f"case {self.batch} {self.length} {self.length + self.before} {self.heads}"
                f" {self.kv_heads} {self.dim} {self.value_dim}")

    @property
    def name(self):
        values = f"/{self.value_dim}" if self.value_dim != self.dim else ""
        behind = f" behind {self.before}" if self.before else ""
        return (f"{self.what}: {self.batch} x {self.length}{behind}, "
                f"{self.heads} on {self.kv_heads} heads of {self.dim}{values}")

    def flops(self):
        """(forward, backward)"""
        pairs = self.length * (self.before + (self.length + 1) / 2) * self.batch * self.heads
        return pairs * 2 * (self.dim + self.value_dim), pairs * (6 * self.dim + 4 * self.value_dim)


CASES = (
    Case("demo", 8, 256, 8, 4, 32, 32),
    Case("grouped", 4, 1024, 8, 4, 64, 64),
    Case("one key head", 1, 2048, 8, 1, 64, 64),
    Case("wide heads", 2, 1024, 8, 8, 128, 128),
    Case("long", 1, 8192, 4, 2, 128, 128),
    Case("mla", 2, 1024, 8, 8, 192, 128),
    Case("behind a cache", 2, 256, 8, 2, 64, 64, before=2048),
    Case("short", 64, 32, 8, 8, 64, 64),
)
QUICK = (Case("quick", 1, 64, 4, 2, 16, 16), Case("quick", 1, 20, 2, 2, 24, 16, before=30))


def check(child, case):
    """The set of kernels. Exits where a contender differs from float64."""
    found = child.ask(case.command)
    for name in CONTENDERS:
        off = math.nan if found[name] is None else found[name]
        if not off <= LARGEST_DIFFERENCE:
            sys.exit(f"parity is red, so nothing is timed: {case.name}: {name} is off by "
                     f"{off:.1e} of the largest value (allowed {LARGEST_DIFFERENCE:.0e})")
    return found["kernels"]


def measure(child, case, rounds):
    """{contender: {pass: seconds of each round}}"""
    times = {name: {"forward": [], "backward": []} for name in CONTENDERS}
    for turn in range(-1, rounds):  # the first round warms up
        for name in rotated(list(CONTENDERS), turn):
            answer = child.ask(name)
            if turn >= 0:
                for one, seconds in answer.items():
                    times[name][one].append(seconds)
    return times


def line(case, times):
    cells = [case.name]
    for (one, flops) in zip(("forward", "backward"), case.flops()):
        ratio = paired_ratio(times["torch"][one], times["kha"][one])
        cells.append(f"{ratio}, {flops / min(times['kha'][one]) / 1e9:.0f} GFLOP/s")
    both = {name: [f + b for f, b in zip(*own.values())] for name, own in times.items()}
    cells.append(str(paired_ratio(both["torch"], both["kha"])))
    return "| " + " | ".join(cells) + " |"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it all work?")
    options = parser.parse_args(arguments)
    changes = {"GLIBC_TUNABLES": TUNABLES}  # fresh pages would be a part of what is measured
    program = build_dir() / "tests" / "kha_attention_child"
    with Child("attention", [str(program), str(options.threads)], changes) as child:
        for case in QUICK if options.quick else CASES:
            kernels = check(child, case)
            if case is (QUICK if options.quick else CASES)[0]:
                print(f"kernels {kernels}, {child.ready['threads']} threads, torch's time / kha's, "
                      f"{options.rounds} rounds")
                print("| case | forward | backward | both |\n|---|---|---|---|")
            print(line(case, measure(child, case, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
