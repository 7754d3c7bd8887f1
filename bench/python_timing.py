"""Clocks and intervals of the benchmark of the Python package."""

import random
import statistics
import time

import torch


def synchronise(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def timed(function, options):
    """(wall seconds, seconds of the process's threads)"""
    synchronise(options)
    wall, threads = time.perf_counter(), time.process_time()
    function()
    synchronise(options)
    return time.perf_counter() - wall, time.process_time() - threads


def interval(ours, theirs, draws=2000):
    """Of ours over theirs, round by round: the median and its 95 % interval by bootstrap, seeded;
    and the ratio of the best rounds."""
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(draws))
    return {"median": statistics.median(ratios), "low": medians[int(0.025 * draws)],
            "high": medians[int(0.975 * draws)], "best": min(ours) / min(theirs)}
