"""What one report is about: the runs of all its folders, and how they compare."""

from dataclasses import dataclass, field
from pathlib import Path

from .lines import GIVE_A_RUN, RunError, finite, read_json
from .runs import Run, arms_of_entries, arms_of_folders, check_run, not_a_run
from .statistics import Interval, over_documents, over_seeds


@dataclass
class Difference:
    """Validation loss of a setting less the reference's, same seeds and steps."""

    setting: str  # labels, both
    reference: str
    covers: str  # "seeds" or "documents"
    seeds: int  # pairs of runs
    final: Interval | None = None  # None: not finished, or nothing to make an interval of
    mean_only: float | None = None  # of the last common step where there is no interval
    tokens: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    bands: list[Interval | None] = field(default_factory=list)
    finished: bool = True


@dataclass
class Group:
    """A comparison, or one run alone."""

    name: str
    folder: Path
    runs: list[Run]
    reference: str = ""  # setting; empty: nothing to compare with
    planned: int = 0  # arms that it will have; 0: not known
    content: dict = field(default_factory=dict)  # compare.json
    variant: str = ""  # of a comparison over variants: each is a group of its own
    model: dict = field(default_factory=dict)  # what compare.json says of the variant

    @property
    def title(self) -> str:
        return self.variant or self.name


@dataclass
class Study:
    name: str
    groups: list[Group]
    notes: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(run.label for run in self.runs))

    def of_label(self, label: str) -> list[Run]:
        return [run for run in self.runs if run.label == label]

    def first_runs(self) -> list[Run]:
        """The first seed of every setting."""
        return [self.of_label(label)[0] for label in self.labels]

    @property
    def variants(self) -> list[Group]:
        return [group for group in self.groups if group.variant]

    @property
    def unfinished(self) -> list[Run]:
        return [run for run in self.runs if not run.finished]

    @property
    def missing_arms(self) -> int:
        return sum(max(0, group.planned - len(group.runs)) for group in self.groups)

    def differences(self) -> list[Difference]:
        return [
            difference_of(group, setting)
            for group in self.groups
            if group.reference
            for setting in dict.fromkeys(run.setting for run in group.runs)
            if setting != group.reference
        ]


def planned_arms(folder: Path) -> tuple[list[str], int]:
    """The settings of [compare] in config.toml and the number of arms, as far as it is there."""
    config = Run(folder, "").config.get("compare", {})
    settings = config.get("settings") or []
    return settings, len(settings) * int(config.get("seeds") or 1)


def read_group(folder: Path) -> Group:
    """A comparison where the folder has compare.json or arms/, a single run otherwise."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}\n  next: {GIVE_A_RUN}")
    name = folder.resolve().name
    path = folder / "compare.json"
    if path.is_file():
        content = read_json(path.read_text(), str(path))
        runs = [check_run(run) for run in arms_of_entries(folder, content)]
        settings = [run.setting for run in runs]
        given = content.get("reference")
        reference = given or ("baseline" if "baseline" in settings else "")
        runs.sort(key=lambda run: run.setting != reference)
        return Group(name, folder, runs, reference, len(runs), content)
    if (folder / "arms").is_dir():
        settings, planned = planned_arms(folder)
        runs = [check_run(run) for run in arms_of_folders(folder)]
        if not runs:
            raise RunError(f"no arm of {folder} has begun\n  next: let its first arm begin")
        order = {setting: place for place, setting in enumerate(settings)}
        runs.sort(key=lambda run: (order.get(run.setting, len(order)), run.seed))
        present = [run.setting for run in runs]
        reference = settings[0] if settings else "baseline"
        return Group(name, folder, runs, reference if reference in present else "", planned)
    if not (folder / "metrics.jsonl").is_file():
        raise not_a_run(folder)
    return Group(name, folder, [check_run(Run(folder, name, None, name))])


def planned_variants(folder: Path) -> tuple[list[dict], int]:
    """The variants that kha has written before it trained them, and the number of seeds."""
    path = folder / "planned.json"
    content = read_json(path.read_text(), str(path)) if path.is_file() else {}
    variants = content.get("variants")
    named = [v for v in variants or [] if isinstance(v, dict) and isinstance(v.get("name"), str)]
    return named, int(finite(content.get("seeds")) or 1)


def group_of_variant(whole: Group, name: str, plan: dict, seeds: int) -> Group:
    runs = [run for run in whole.runs if run.variant == name]
    settings = plan.get("settings") or []
    reference = whole.content.get("reference") or (settings[0] if settings else "baseline")
    order = {setting: place for place, setting in enumerate([reference, *settings])}
    runs.sort(key=lambda run: order.get(run.setting, len(order)))
    models = {model.get("name"): model for model in whole.content.get("variants") or []}
    there = reference in [run.setting for run in runs]
    planned = len(settings) * seeds or len(runs)
    return Group(
        whole.name, whole.folder, runs, reference if there else "", planned, whole.content, name,
        models.get(name) or plan,
    )  # fmt: skip


def read_groups(folder: Path) -> list[Group]:
    """A comparison over variants is a group for each: losses are paired within a variant."""
    whole = read_group(folder)
    begun = list(dict.fromkeys(run.variant for run in whole.runs))
    if begun == [""]:
        return [whole]
    plans, seeds = planned_variants(folder)
    by_name = {plan["name"]: plan for plan in plans}
    order = {name: place for place, name in enumerate(by_name)}
    begun.sort(key=lambda name: order.get(name, len(order)))
    groups = [group_of_variant(whole, name, by_name.get(name, {}), seeds) for name in begun]
    for plan in plans:
        if plan["name"] not in begun:
            groups[0].planned += len(plan.get("settings") or []) * seeds
    return groups


def label_of(run: Run, group: Group, alone: bool) -> str:
    parts = [run.variant, run.setting] if run.variant else [run.setting]
    return ": ".join(parts if alone or run.folder == group.folder else [group.name, *parts])


def read_study(folders: list[Path]) -> Study:
    groups = [group for folder in folders for group in read_groups(folder)]
    for group in groups:
        for run in group.runs:
            run.label = label_of(run, group, len(folders) == 1)
    names = list(dict.fromkeys(group.name for group in groups))
    notes = [note for group in groups for run in group.runs for note in run.notes]
    return Study(" + ".join(names), groups, notes)


def pairs_of(group: Group, setting: str) -> list[tuple[Run, Run]]:
    reference = {run.seed: run for run in group.runs if run.setting == group.reference}
    own = [run for run in group.runs if run.setting == setting]
    return [(run, reference[run.seed]) for run in own if run.seed in reference]


def difference_of(group: Group, setting: str) -> Difference:
    pairs = pairs_of(group, setting)
    labels = {run.setting: run.label for run in group.runs}
    own = [run for run in group.runs if run.setting in (setting, group.reference)]
    one_seed = len(pairs) < 2
    result = Difference(
        labels[setting], labels[group.reference], "documents" if one_seed else "seeds", len(pairs)
    )
    result.finished = bool(pairs) and all(run.finished for run in own)
    losses = [(run.by_step("val/loss"), base.by_step("val/loss")) for run, base in pairs]
    common = [set(one) & set(other) for one, other in losses]
    for step in sorted(set.intersection(*common)) if common else []:
        differences = [one[step][1] - other[step][1] for one, other in losses]
        result.tokens.append(losses[0][0][step][0])
        result.means.append(sum(differences) / len(differences))
        result.bands.append(band_at(step, pairs, differences))
    if result.means:
        result.mean_only = result.means[-1]
    result.final = given_interval(group, setting, result) if result.finished else None
    return result


def band_at(step: int, pairs: list[tuple[Run, Run]], differences: list[float]) -> Interval | None:
    if len(pairs) > 1:
        return over_seeds(differences)
    (run, base), = pairs
    if step not in run.documents or step not in base.documents:
        return None
    return over_documents(run.documents[step], base.documents[step])


def given_interval(group: Group, setting: str, made: Difference) -> Interval | None:
    """What `kha compare` wrote; of the last evaluation where it has not."""
    for entry in group.content.get("differences") or []:
        if not isinstance(entry, dict) or (entry.get("variant") or "") != group.variant:
            continue
        if entry.get("setting") == setting:
            numbers = [finite(entry.get(key)) for key in ("mean", "low", "high")]
            if None not in numbers:
                made.covers = entry.get("kind", made.covers)
                return Interval(*numbers)
    return made.bands[-1] if made.bands else None


def only_first_seed(study: Study) -> str:
    """A sentence for figures of one run a setting; empty where there is no other."""
    several = any(len(study.of_label(label)) > 1 for label in study.labels)
    return " Of several seeds the first is shown." if several else ""
