"""From the losses of runs to a verdict on each ordering, and to its difference over the tokens."""

import math
from dataclasses import dataclass, field

from evidence.statistics import Interval, interval_over_pairs, verdict


@dataclass
class Judgement:
    """Differences are of validation losses, `higher` less `lower`: positive is as reported."""

    lower: str
    higher: str
    pairs: dict[int, float]  # seed: difference at the end
    curve: list[tuple[int, Interval]]  # over training tokens
    left_out: list[str] = field(default_factory=list)
    diverged: bool = False

    @property
    def interval(self):
        return interval_over_pairs(list(self.pairs.values())) if self.pairs else None

    @property
    def verdict(self):
        """A pair that has no number cannot be left out of a mean without bending it."""
        return "not decided" if self.diverged else verdict(self.interval)


def main_runs(results, arm):
    """{seed: run} of an arm, without those of the sweep."""
    return {run["seed"]: run for run in results["runs"] if run["arm"] == arm and not run["sweep"]}


def whole(run):
    """Finished, every loss a number."""
    return run["state"] == "finished" and bool(run["points"]) and all(
        loss is not None and math.isfinite(loss) for _, loss in run["points"])


def broken(run):
    """At its end, but without a number: it diverged."""
    return run["state"] == "diverged" or (run["state"] == "finished" and not whole(run))


def seeds_of_both(a, b, name_a, name_b):
    """Seeds whose runs are whole in both arms; whether a pair diverged; what is left out and why."""
    good, notes, diverged = [], [], False
    for seed in sorted(a.keys() | b.keys()):
        for runs, name in ((a, name_a), (b, name_b)):
            if seed not in runs:
                notes.append(f"{name} has no run of seed {seed}")
            elif broken(runs[seed]):
                notes.append(f"{name}, seed {seed}, diverged")
            elif not whole(runs[seed]):
                notes.append(f"{name}, seed {seed}, is not finished")
        pair = [runs[seed] for runs in (a, b) if seed in runs]
        if len(pair) == 2 and all(whole(run) or broken(run) for run in pair):
            diverged = diverged or any(map(broken, pair))
            if not any(map(broken, pair)):
                good.append(seed)
    return good, diverged, notes


def differences(high, low):
    """{tokens: difference} where both runs were evaluated."""
    lower = dict(map(tuple, low["points"]))
    return {tokens: loss - lower[tokens] for tokens, loss in high["points"] if tokens in lower}


def judge(results, lower, higher):
    low, high = main_runs(results, lower), main_runs(results, higher)
    seeds, diverged, notes = seeds_of_both(low, high, lower, higher)
    series = {seed: differences(high[seed], low[seed]) for seed in seeds}
    for seed in [seed for seed, each in series.items() if not each]:
        notes.append(f"seed {seed}: the two runs were never evaluated at the same step")
        del series[seed]
    shared = set.intersection(*(set(each) for each in series.values())) if series else set()
    if series and max(shared, default=-1) != max(max(each) for each in series.values()):
        notes.append("the runs end at different numbers of tokens; the last shared one counts")
    end = max(shared, default=None)
    return Judgement(
        lower=lower, higher=higher, left_out=notes, diverged=diverged,
        pairs={seed: each[end] for seed, each in series.items()} if shared else {},
        curve=[(tokens, interval_over_pairs([each[tokens] for each in series.values()]))
               for tokens in sorted(shared)])


def final_losses(results, arm):
    """{seed: last validation loss} of whole runs."""
    return {seed: run["points"][-1][1] for seed, run in sorted(main_runs(results, arm).items())
            if whole(run)}
