"""The plan: which runs there are, in which order, and which orderings they are to judge."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path


class PlanError(Exception):
    """A plan that cannot be meant, said in whole sentences."""


@dataclass(frozen=True)
class Arm:
    name: str
    sets: tuple[str, ...]
    rate_of: str  # the arm whose sweep gives the learning rate


@dataclass(frozen=True)
class Run:
    """One `kha train`. Of a sweep where `rate` is given, else at its arm's best rate."""

    arm: Arm
    seed: int
    rate: float | None = None

    @property
    def name(self):
        return f"{self.arm.name}-s{self.seed}" + (f"-lr{self.rate:g}" if self.rate else "")


@dataclass(frozen=True)
class Ordering:
    """`lower` is said to end with less validation loss than `higher`."""

    about: str
    lower: str
    higher: str
    source: str


@dataclass
class Plan:
    name: str
    config: str
    arms: dict[str, Arm]
    sweep: list[Run]
    sweep_steps: int
    runs: list[Run]
    orderings: list[Ordering]
    sets: list[str] = field(default_factory=list)

    def all_runs(self):
        return [*self.sweep, *self.runs]

    def sweep_of(self, arm):
        return [run for run in self.sweep if run.arm.name == arm.rate_of]


def known(arms, name, where):
    if name not in arms:
        raise PlanError(f"{where} names the arm `{name}`\n  expected: {', '.join(arms)}")
    return arms[name]


def read_arms(table, swept):
    arms = {name: Arm(name, tuple(entry["set"]), entry.get("rate_of", name))
            for name, entry in table.items()}
    for arm in arms.values():
        known(arms, arm.rate_of, f"[arms] {arm.name}: rate_of")
        if arm.rate_of not in swept:
            raise PlanError(f"[arms] {arm.name} takes the learning rate of {arm.rate_of}, which "
                            f"[sweep] does not try\n  expected: {', '.join(swept)}")
    return arms


def staged_runs(stages, arms):
    """Seed by seed within a stage: a pair is whole before the next seed begins."""
    runs = []
    for number, stage in enumerate(stages, 1):
        for seed in stage["seeds"]:
            for name in stage["arms"]:
                runs.append(Run(known(arms, name, f"stage {number}"), seed))
    twice = {run.name for run in runs if runs.count(run) > 1}
    if twice:
        raise PlanError(f"the stages hold a run twice: {', '.join(sorted(twice))}")
    return runs


def read_table(path):
    """The keys of a plan; those that it lacks are of the plan that its `like` names, beside it."""
    table = tomllib.loads(path.read_text())
    like = table.pop("like", None)
    return {**read_table(path.parent / like), **table} if like else table


def read(path):
    """The plan of a file. Raises PlanError, naming what is missing or unknown."""
    try:
        table = read_table(Path(path))
        sweep = table["sweep"]
        arms = read_arms(table["arms"], sweep["arms"])
        orderings = [Ordering(**entry) for entry in table["orderings"]]
        for entry in orderings:
            known(arms, entry.lower, "[[orderings]] lower")
            known(arms, entry.higher, "[[orderings]] higher")
        tried = [Run(known(arms, name, "[sweep]"), seed, rate)
                 for name in sweep["arms"] for seed in sweep["seeds"] for rate in sweep["rates"]]
        return Plan(name=table["name"], config=table["config"], arms=arms, sweep=tried,
                    sweep_steps=sweep["steps"], runs=staged_runs(table["stages"], arms),
                    orderings=orderings, sets=table.get("set", []))
    except OSError as error:
        raise PlanError(f"cannot read the plan {error.filename}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise PlanError(f"{path}: {error}") from error
    except KeyError as error:
        raise PlanError(f"{path} has no {error}\n  next: evidence/plan.toml shows every key"
                        ) from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
