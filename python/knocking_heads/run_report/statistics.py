"""Smoothing, paired differences and their 95 % intervals, as `kha compare` computes them."""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A mean difference in nats per token with its 95 % interval."""

    mean: float
    low: float
    high: float

    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def number(value: float) -> str:
    """A difference as the report prints it, with a real minus sign."""
    return f"{value:+.4f}".replace("-", "\u2212")


def smooth(values: list[float], widest: int | None = None) -> list[float]:
    """Mean over a fortieth of the run around each value, over five values in a short one.

    Narrower at the start, whose fall a wide one would lag behind; cut off at the flat end.
    `widest` is how many values it takes on either side.
    """
    if widest is None:
        widest = width_of(len(values))
    sums = [0.0, *itertools.accumulate(values)]
    means = []
    for i in range(len(values)):
        half = min(widest, i)
        first, end = i - half, min(i + half + 1, len(values))
        means.append((sums[end] - sums[first]) / (end - first))
    return means


def width_of(count: int) -> int:
    return max(count // 80, min(2, count // 10))


def smooth_between_gaps(values: list[float | None]) -> list[float | None]:
    """`smooth` of each stretch between gaps (None), as wide as the whole asks for."""
    result: list[float | None] = []
    for gap, stretch in itertools.groupby(values, key=lambda value: value is None):
        result += list(stretch) if gap else smooth(list(stretch), width_of(len(values)))
    return result


def central_probability(t: float, degrees: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def student_t_95(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t."""
    if degrees > 2000:
        return 1.959963984540054 + 2.3722 / degrees
    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if central_probability(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2


def over_seeds(differences: list[float]) -> Interval | None:
    """Of the same seeds' losses; None with fewer than two."""
    n = len(differences)
    if n < 2:
        return None
    mean = math.fsum(differences) / n
    squares = math.fsum((d - mean) ** 2 for d in differences)
    half = student_t_95(n - 1) * math.sqrt(squares / (n - 1) / n)
    return Interval(mean, mean - half, mean + half)


def over_documents(arm: dict, reference: dict) -> Interval | None:
    """Of {document: [nats, targets]} on the same targets; None where they are not the same.

    Documents are drawn, not tokens: the variance of a ratio, linearised.
    """
    n = len(arm)
    if n < 2 or {k: v[1] for k, v in arm.items()} != {k: v[1] for k, v in reference.items()}:
        return None
    pairs = [(nats - reference[key][0], targets) for key, (nats, targets) in arm.items()]
    targets = sum(count for _, count in pairs)
    mean = math.fsum(difference for difference, _ in pairs) / targets
    squares = math.fsum((difference - mean * count) ** 2 for difference, count in pairs)
    half = student_t_95(n - 1) * math.sqrt(n / (n - 1) * squares) / targets
    return Interval(mean, mean - half, mean + half)
