"""What readings say: the best one that another supports, ratios of pairs, their interval."""

import random
from dataclasses import dataclass
from statistics import median


def supported_best(values, better=max, within=0.01):
    """The best reading that at least one other comes near to.

    A clock that is moved, or a host that gives time back, makes single readings better than the
    processor can be; a true best is met again. The median where no two agree.
    """
    ordered = sorted(values, reverse=better is max)
    for best, next_best in zip(ordered, ordered[1:]):
        if abs(best - next_best) <= within * abs(best):
            return best
    return median(ordered)


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, its 95 % interval, and the number of pairs."""

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self):
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def paired_ratio(numerators, denominators, draws=4000, seed=1):
    """The median of numerator / denominator, reading by reading, with a bootstrap interval.

    Readings of one index stand next to each other in time, so that a slow moment of the machine
    hits both. Raises ValueError where the numbers differ or there is no pair.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError(f"{len(numerators)} and {len(denominators)} readings make no pairs")
    ratios = [n / d for n, d in zip(numerators, denominators)]
    random_numbers = random.Random(seed)
    medians = sorted(median(random_numbers.choices(ratios, k=len(ratios))) for _ in range(draws))
    return Ratio(median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws) - 1],
                 len(ratios))


def share_of(flops, seconds, ceiling):
    """Useful operations a second as a share of the ceiling's."""
    return flops / seconds / ceiling


def rotated(items, turn):
    """ABC, BCA, CAB: in turn each contender comes first, so that drift favours none."""
    turn %= max(len(items), 1)
    return items[turn:] + items[:turn]
