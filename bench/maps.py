"""Times of the maps: contenders in turn, window after window, beside the ceiling's probe."""

import ctypes
import time
from dataclasses import dataclass, field
from statistics import median

import torch

from bench import contenders as peers
from bench.paired import paired_ratio, rotated, share_of, supported_best

WINDOW_S = 0.04  # at least: a window of a small call holds many calls
PROBE_S = 0.03


def keep_freed_memory():
    """What a user who tunes glibc sets: freed blocks stay with the process. For good."""
    m_trim_threshold, m_top_pad, m_mmap_max = -1, -2, -4
    libc = ctypes.CDLL(None)
    for option, value in ((m_mmap_max, 0), (m_trim_threshold, 2**31 - 1), (m_top_pad, 1 << 26)):
        libc.mallopt(option, value)


def clock_of(threads):
    """One thread's own time: what else runs on its core does not count. Several share a wall."""
    return time.thread_time if threads == 1 else time.perf_counter


def read_ceiling(threads, seconds):
    """Operations a second by the clock that windows of as many threads go by."""
    now = clock_of(threads)
    wall, begin = time.perf_counter(), now()
    reading = torch.ops.kha.measure_ceiling(threads, seconds)
    return reading * (time.perf_counter() - wall) / (now() - begin)


@dataclass
class Series:
    """One contender in one pass of one case on some threads: seconds a call, window by window."""

    case: object
    run: str  # forward, both
    threads: int
    contender: str
    function: object
    calls: int = 1
    seconds: list = field(default_factory=list)

    def window(self):
        now = clock_of(self.threads)
        begin = now()
        for _ in range(self.calls):
            self.function()
        self.seconds.append((now() - begin) / self.calls)

    def warm_up(self, window_s):
        """Compiles, takes memory, and finds how many calls fill a window."""
        for _ in range(2):
            self.function()
        self.window()
        self.calls = max(1, min(2000, round(window_s / self.seconds[0])))
        self.seconds.clear()


def call_of(function, inputs, run):
    """What a window repeats."""
    if run == "both":
        leaves = inputs.leaves()
        return lambda: torch.autograd.grad(function(*leaves), leaves, inputs.grad)

    def forward():
        with torch.inference_mode():
            return function(inputs.x, *inputs.maps)

    return forward


def make_functions(case, contenders, with_compile):
    return {name: make(case.kind) for name, make in contenders.items()
            if name != "torch.compile" or (with_compile and case.compiled)}


def check_parity(cases, contenders, with_compile, progress):
    """(complaints, [(case, inputs, functions)])."""
    complaints, ready = [], []
    for case in cases:
        inputs, functions = peers.make_inputs(case), make_functions(case, contenders, with_compile)
        complaints += peers.parity_of(case, functions, inputs)
        ready.append((case, inputs, functions))
        progress.advance(case.name)
    return complaints, ready


def series_of(ready, thread_counts):
    """Groups whose members are compared: one a case, pass and thread count."""
    groups = []
    for threads in thread_counts:
        for case, inputs, functions in ready:
            if threads != max(thread_counts) and not case.one_thread:
                continue
            for run in case.passes:
                # torch.compile writes the thread count into its code, so it has one only.
                named = {name: function for name, function in functions.items()
                         if threads == max(thread_counts) or name != "torch.compile"}
                groups.append([Series(case, run, threads, name, call_of(function, inputs, run))
                               for name, function in named.items()])
    return groups


def copy_bandwidth(elements=1 << 24, repeats=4):
    """Bytes a second that a copy reads and writes; the best of some."""
    source = torch.ones(elements)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        target.copy_(source)
        best = max(best, 2 * 4 * elements / (time.perf_counter() - begin))
    return best


def run_windows(groups, rounds, progress, window_s):
    """Every group once a round, so that the windows of each are spread over the whole time."""
    probes = {}
    for group in groups:
        torch.set_num_threads(group[0].threads)
        for series in group:
            series.warm_up(window_s)
        progress.advance(f"warming up {group[0].case.name}")
    for turn in range(rounds):
        for group in groups:
            threads = group[0].threads
            torch.set_num_threads(threads)
            probes.setdefault(threads, []).append(
                read_ceiling(threads, min(PROBE_S, window_s)))
            for series in rotated(group, turn):
                series.window()
            progress.advance(group[0].case.name)
    return probes


def describe(series, group, ceilings, bandwidth, saved):
    """One row of the result."""
    case = series.case
    flops = case.useful_flops(series.run)
    best = supported_best(series.seconds, better=min)
    ceiling = ceilings[series.threads]
    row = {
        "case": case.name, "kind": case.kind, "rows": case.rows, "heads": case.heads,
        "dim": case.dim, "strided": case.strided, "decode": case.decode, "pass": series.run,
        "threads": series.threads, "contender": series.contender, "calls": series.calls,
        "windows_s": series.seconds, "median_s": median(series.seconds), "best_s": best,
        "best_flops_per_s": flops / best, "share_of_ceiling": share_of(flops, best, ceiling),
        "saved_bytes": saved, "x_bytes": 4 * case.rows * case.dim,
    }
    if series.run == "forward":
        bound = min(ceiling, bandwidth * flops / case.moved_bytes())
        row["share_of_bound"] = share_of(flops, best, bound)
    mine = next((other for other in group if other.contender == "ours"), None)
    if mine and mine is not series:
        ratio = paired_ratio(series.seconds, mine.seconds)
        row["ours_is_faster"] = vars(ratio)
    return row


def measure(ready, thread_counts, rounds, progress, allocator, window_s=WINDOW_S):
    """{"ceiling": …, "rows": […]} of the cases that parity let through."""
    groups = series_of(ready, thread_counts)
    progress.total = len(groups) * (rounds + 1)
    torch.set_num_threads(max(thread_counts))
    bandwidth = copy_bandwidth()
    probes = run_windows(groups, rounds, progress, window_s)
    ceilings = {threads: supported_best(readings) for threads, readings in probes.items()}
    saved = {(case.name, name): peers.saved_bytes(function, inputs)
             for case, inputs, functions in ready for name, function in functions.items()
             if "both" in case.passes}
    rows = [describe(series, group, ceilings, bandwidth,
                     saved.get((series.case.name, series.contender)))
            for group in groups for series in group]
    torch.set_num_threads(max(thread_counts))
    return {"allocator": allocator, "copy_bytes_per_s": bandwidth,
            "ceiling_flops_per_s": {str(t): c for t, c in ceilings.items()},
            "probes_flops_per_s": {str(t): p for t, p in probes.items()},
            "rounds": rounds, "rows": rows}
