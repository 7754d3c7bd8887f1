"""Means of paired differences with Student's interval, and what such an interval allows to say."""

import math
from dataclasses import dataclass

CONFIDENCE = 0.95


def central_probability(t, degrees):
    """P(|T| <= t) for whole degrees of freedom, a finite sum (Abramowitz and Stegun 26.7.3, .4)."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def student_quantile(degrees, confidence=CONFIDENCE):
    """t with P(|T| <= t) = confidence, by bisection."""
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom make no interval; two pairs at least")
    low, high = 0.0, 1.0
    while central_probability(high, degrees) < confidence:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if central_probability(middle, degrees) < confidence else (
            low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Interval:
    """Infinite bounds where one pair alone says nothing about the scatter."""

    mean: float
    low: float
    high: float
    pairs: int

    def __str__(self):
        return f"{self.mean:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def interval_over_pairs(differences, confidence=CONFIDENCE):
    """Of the mean of differences that come one a seed."""
    n = len(differences)
    if not n:
        raise ValueError("no pairs, no mean")
    mean = math.fsum(differences) / n
    if n == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
    half = student_quantile(n - 1, confidence) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, n)


def verdict(interval):
    """On a difference that the paper reports as positive."""
    if interval is None or not all(map(math.isfinite, (interval.low, interval.high))):
        return "not decided"
    if interval.low > 0:
        return "reproduced"
    return "opposite" if interval.high < 0 else "not decided"
