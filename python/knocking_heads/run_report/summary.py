"""The answer in words: no more than the interval allows."""

from dataclasses import dataclass, field

from .statistics import number
from .study import Difference, Study


@dataclass
class Verdict:
    """One setting against its reference."""

    setting: str
    outcome: str  # "better", "worse", "undecided" or "open"
    text: str


@dataclass
class Summary:
    headline: str
    verdicts: list[Verdict] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


def outcome_of(d: Difference) -> str:
    if not d.final:
        return "open"
    if not d.final.excludes_zero():
        return "undecided"
    return "better" if d.final.mean < 0 else "worse"


def in_words(d: Difference) -> str:
    f = d.final
    if not d.finished:
        so_far = f" So far {number(d.mean_only)} nats per token." if d.mean_only is not None else ""
        return f"{d.setting}: not finished beside {d.reference}, so nothing is concluded.{so_far}"
    if not f:
        alone = f" ({number(d.mean_only)} nats per token)" if d.mean_only is not None else ""
        return (
            f"{d.setting}: the difference from {d.reference}{alone} has no interval, so nothing is "
            "concluded."
        )
    over = f"{d.seeds} seeds" if d.covers == "seeds" else "documents"
    figures = (
        f"{number(f.mean)} nats per token, 95 % interval over {over} "
        f"{number(f.low)} to {number(f.high)}"
    )
    if not f.excludes_zero():
        return f"{d.setting}: no difference from {d.reference} is shown ({figures}; 0 is inside)."
    side = "lower" if f.mean < 0 else "higher"
    return f"{d.setting}: {side} validation loss than {d.reference} ({figures})."


def listed(names: list[str], most: int = 0) -> str:
    """With `most`: where there are more, how many."""
    if most and len(names) > most:
        return f"{len(names)} settings"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def reference_in_words(differences: list[Difference], count: int) -> str:
    """Of `count` settings; their own where variants or comparisons have one each."""
    references = list(dict.fromkeys(d.reference for d in differences))
    if len(references) == 1:
        return references[0]
    return "its own baseline" if count == 1 else "their own baselines"


def headline_of(study: Study, differences: list[Difference]) -> str:
    if not differences:
        if any(group.reference for group in study.groups):
            return "Only the reference is here so far: there is nothing to compare it with yet."
        what = "one run" if len(study.runs) == 1 else f"{len(study.runs)} runs"
        return f"This page describes {what}. There is no baseline beside it, so it does not judge."
    names = {kind: [d.setting for d in differences if outcome_of(d) == kind]
             for kind in ("better", "worse", "undecided", "open")}  # fmt: skip
    one_seed = all(d.covers == "documents" for d in differences if d.final)
    if len(names["open"]) == len(differences):
        return "The comparison has not finished, so nothing is concluded yet."
    parts = []
    for kind, side in (("better", "below"), ("worse", "above")):
        if names[kind]:
            beside = reference_in_words(differences, len(names[kind]))
            parts.append(f"{listed(names[kind], 3)} ended {side} {beside}")
    if not parts:
        return f"No difference from {reference_in_words(differences, len(differences))} is shown."
    rest = names["undecided"]
    if rest:
        parts.append(f"for {listed(rest, 3)} no difference is shown")
    text = "; ".join(parts)
    if one_seed:
        return f"In one run of each: {text}. One seed does not tell whether another would agree."
    return f"{text}."


def cautions_of(study: Study, differences: list[Difference]) -> list[str]:
    cautions = []
    judged = [d for d in differences if d.final]
    if any(d.covers == "documents" for d in judged):
        cautions.append(
            "An interval over documents says how these trained models differ on such text. It does "
            "not cover training noise: another seed may turn a small difference round. More seeds: "
            "--set compare.seeds=3."
        )
    if any(d.covers == "seeds" and d.seeds < 5 for d in judged):
        few = min(d.seeds for d in judged if d.covers == "seeds")
        cautions.append(
            f"The interval over {few} seeds rests on {few} differences, taken to scatter normally."
        )
    if len(judged) > 2:
        cautions.append(
            f"There are {len(judged)} intervals at 95 % each: one in twenty misses by chance, so a "
            "single one that narrowly leaves 0 out says little."
        )
    for group in study.variants:
        for left in group.model.get("left_out") or []:
            cautions.append(f"{group.variant}: {left['setting']} was left out: {left['reason']}.")
    if judged:
        cautions.append("This holds for this size of model, this text and this many tokens.")
    open_runs = [run.name for run in study.unfinished]
    if open_runs:
        whose = "Its figures are" if len(open_runs) == 1 else "Their figures are"
        cautions.append(f"Not finished: {listed(open_runs)}. {whose} of the last line.")
    if study.missing_arms:
        arms = "arm has" if study.missing_arms == 1 else "arms have"
        cautions.append(f"{study.missing_arms} {arms} not begun yet.")
    return cautions + study.notes


def summarise(study: Study) -> Summary:
    differences = study.differences()
    verdicts = [Verdict(d.setting, outcome_of(d), in_words(d)) for d in differences]
    return Summary(headline_of(study, differences), verdicts, cautions_of(study, differences))
