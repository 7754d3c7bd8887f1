"""Loss spikes of the arms: how often, and whether two arms differ in it.

What a spike is stands in one place, the C++ library: `kha inspect run` reads a run and says it.
"""

import json
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .runs import Run
from .study import Study


@cache
def inspected(folder: Path) -> dict | str:
    """What `kha inspect run` says of a run; a sentence where it says nothing."""
    program = shutil.which("kha", path=str(Path(sys.executable).parent)) or shutil.which("kha")
    if program is None:
        return "The program `kha`, which finds them, is not installed beside the report."
    done = subprocess.run(
        [program, "inspect", "run", str(folder), "--json"], capture_output=True, text=True
    )
    if done.returncode != 0:
        lines = (done.stderr or "no output").strip().splitlines()
        return f"`kha inspect run {folder}` failed: {lines[0]}"
    return json.loads(done.stdout)["runs"][0]


def figures_of(run: Run) -> dict | None:
    known = inspected(run.folder)
    return None if isinstance(known, str) else known


def events_of(run: Run) -> list[dict]:
    known = figures_of(run)
    return known["spikes"]["events"] if known else []


def exact_test(first: int, second: int, first_steps: int, second_steps: int) -> float:
    """Two-sided p-value of equal frequency; of two splits the less likely ones are summed."""
    whole, share = first + second, first_steps / (first_steps + second_steps)

    def log_split(k: int) -> float:
        ways = math.lgamma(whole + 1) - math.lgamma(k + 1) - math.lgamma(whole - k + 1)
        return ways + k * math.log(share) + (whole - k) * math.log(1 - share)

    seen = log_split(first) + 1e-7
    splits = map(log_split, range(whole + 1))
    return min(1.0, math.fsum(math.exp(split) for split in splits if split <= seen))


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact 95 % interval of a mean of which `count` was seen; the rule of three for none."""
    if count == 0:
        return 0.0, 3.0

    def at_most(k: int, mean: float) -> float:
        terms = (j * math.log(mean) - mean - math.lgamma(j + 1) for j in range(k + 1))
        return math.fsum(map(math.exp, terms))

    def solve(wanted) -> float:
        low, high = 1e-9, 10.0 * count + 20
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if wanted(middle) else (low, middle)
        return (low + high) / 2

    return (
        solve(lambda mean: 1 - at_most(count - 1, mean) < 0.025),
        solve(lambda mean: at_most(count, mean) > 0.025),
    )


@dataclass
class ArmSpikes:
    """All seeds of a setting together."""

    label: str
    runs: int = 0
    events: int = 0  # behind the warm-up
    steps: int = 0  # that were judged there
    height: float | None = None  # mean, nats
    recovery: float | None = None  # mean, steps
    olmo2: list[float] = field(default_factory=list)  # per cent, of the runs that have it
    olmo_core: list[float] = field(default_factory=list)
    stride: int = 1  # steps between records, the largest
    p: float | None = None  # against the reference
    against: str = ""

    @property
    def rate(self) -> float:
        return 1000 * self.events / self.steps if self.steps else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        low, high = poisson_interval(self.events)
        return 1000 * low / self.steps, 1000 * high / self.steps


def mean_of(values: list) -> float | None:
    values = [value for value in values if value is not None]
    return math.fsum(values) / len(values) if values else None


def arm_of(label: str, runs: list[Run]) -> ArmSpikes:
    known = [figures for run in runs if (figures := figures_of(run))]
    spikes = [figures["spikes"] for figures in known]
    events = [
        event for one in spikes for event in one["events"] if event["first"] > one["warmup_steps"]
    ]
    return ArmSpikes(
        label,
        len(known),
        sum(one["events_after_warmup"] for one in spikes),
        sum(one["steps_after_warmup"] for one in spikes),
        mean_of([event["height"] for event in events]),
        mean_of([event["recovery"] for event in events]),
        [s for one in spikes if (s := one["loss"]["olmo2_score"]) is not None],
        [one["loss"]["olmo_core_rate"] for one in spikes],
        max((figures["series"]["stride"] for figures in known), default=1),
    )


def arms_of(study: Study) -> list[ArmSpikes]:
    """Every setting with its test against the reference of its comparison."""
    arms = {label: arm_of(label, study.of_label(label)) for label in study.labels}
    for group in study.groups:
        labels = {run.setting: run.label for run in group.runs}
        reference = arms.get(labels.get(group.reference, ""))
        for label in labels.values():
            arm = arms[label]
            if reference is None or arm is reference or not arm.steps or not reference.steps:
                continue
            arm.against = reference.label
            arm.p = exact_test(arm.events, reference.events, arm.steps, reference.steps)
    return list(arms.values())


def in_words(arm: ArmSpikes) -> str:
    events = "1 event" if arm.events == 1 else f"{arm.events} events"
    text = f"{arm.label}: {events} in {arm.steps:,} steps"
    return f"{text}, p = {arm.p:.2g} against {arm.against}" if arm.p is not None else text
