"""A run's folder as the report needs it: series, what it came to, what made it."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .lines import GIVE_A_RUN, RunError, finite, has_half_a_line, read_json, read_lines

Series = tuple[list[float], list[float | None]]  # tokens, values; None is a gap


@dataclass
class Run:
    """One arm: a folder with metrics.jsonl and, as far as the run has come, the rest."""

    folder: Path
    setting: str
    seed: int | None = None
    group: str = ""  # the comparison that it belongs to, its own name otherwise
    label: str = ""  # of the setting in legends, filled in by the study
    variant: str = ""  # of the comparison's variants, where it has some
    entry: dict = field(default_factory=dict)  # of compare.json

    @property
    def name(self) -> str:
        return f"{self.label} seed {self.seed}" if self.seed is not None else self.label

    @cached_property
    def lines(self) -> list[dict]:
        return read_lines(self.folder / "metrics.jsonl")

    @cached_property
    def config(self) -> dict:
        path = self.folder / "config.toml"
        try:
            return tomllib.loads(path.read_text()) if path.is_file() else {}
        except tomllib.TOMLDecodeError as error:
            raise RunError(f"{path} is not TOML: {error}") from error

    @cached_property
    def summary(self) -> dict:
        path = self.folder / "summary.json"
        return read_json(path.read_text(), str(path)) if path.is_file() else {}

    def series(self, key: str) -> Series:
        """A line without `tokens` stands where the last one did; what is no number is a gap."""
        tokens, at, values = None, [], []
        for line in self.lines:
            tokens = line.get("tokens", tokens)
            if key in line and finite(tokens) is not None:
                at.append(tokens)
                values.append(finite(line[key]))
        return at, values

    def steps_of(self, key: str) -> list[int]:
        """The steps of `series`."""
        return [line["step"] for line in self.lines if key in line and "step" in line]

    def inner_series(self, key: str) -> dict[str, Series]:
        """Of a metric that is an object: a series for each of its names."""
        found: dict[str, Series] = {}
        tokens = None
        for line in self.lines:
            tokens = line.get("tokens", tokens)
            inner = line.get(key)
            if not isinstance(inner, dict) or finite(tokens) is None:
                continue
            for name, value in inner.items():
                at, values = found.setdefault(name, ([], []))
                if at and at[-1] == tokens:
                    continue  # the checkpoint's line and the evaluation's say the same
                at.append(tokens)
                values.append(finite(value))
        return found

    def by_step(self, key: str) -> dict[int, tuple[float, float]]:
        """{step: (tokens, value)} of the lines where it is a number."""
        found, tokens = {}, None
        for line in self.lines:
            tokens = line.get("tokens", tokens)
            value = finite(line.get(key))
            if value is not None and finite(tokens) is not None and "step" in line:
                found[line["step"]] = (tokens, value)
        return found

    @cached_property
    def documents(self) -> dict[int, dict]:
        """{step: {document: [nats, targets]}}; empty for a run of an older kha."""
        path = self.folder / "documents.jsonl"
        lines = read_lines(path) if path.is_file() else []
        found = {line["step"]: line["documents"] for line in lines if "documents" in line}
        final = self.summary.get("validation") or {}
        if final.get("documents"):
            found.setdefault(self.summary["of"]["step"], final["documents"])
        return found

    @cached_property
    def heads(self) -> dict:
        path = self.folder / "heads.json"
        return read_json(path.read_text(), str(path)) if path.is_file() else {}

    def fact(self, key: str) -> str:
        """The last that `run/KEY` said, empty where it never did."""
        said = [line[f"run/{key}"] for line in self.lines if f"run/{key}" in line]
        return str(said[-1]) if said else ""

    @property
    def step(self) -> int:
        return max((line["step"] for line in self.lines if "step" in line), default=0)

    @property
    def steps(self) -> int | None:
        return self.config.get("train", {}).get("steps")

    @property
    def finished(self) -> bool:
        return bool(self.entry) or bool(self.summary) and self.step >= (self.steps or 0)

    @property
    def notes(self) -> list[str]:
        notes = []
        gaps = sum(value is None for value in self.series("train/loss")[1])
        gaps += sum(value is None for value in self.series("val/loss")[1])
        if gaps:
            lines = "1 logged loss is" if gaps == 1 else f"{gaps} logged losses are"
            notes.append(f"{self.name}: {lines} not a number, shown as gaps in the curves.")
        if has_half_a_line(self.folder / "metrics.jsonl"):
            notes.append(
                f"{self.name}: the last line of metrics.jsonl is half written and was left out; "
                "the run is writing, or was stopped while it did."
            )
        acted = [line.get("spike/action") for line in self.lines]
        skipped, returns = acted.count("skip"), acted.count("back")
        if "stop" in acted:
            notes.append(f"{self.name}: a spike stopped the run; its spike policy could not help.")
        if skipped or returns:
            notes.append(
                f"{self.name}: its spike policy left out {skipped} batches and went back "
                f"{returns} times, so it did not see the same data as an arm that did not."
            )
        return notes

    def figure(self, key: str):
        """A final figure, of compare.json or of summary.json."""
        of_validation = self.summary.get("validation") or {}
        inside = {"val_loss": "loss", "bits_per_byte": "bits_per_byte"}
        places = [self.entry.get(key), self.summary.get(key), of_validation.get(inside.get(key))]
        return next((finite(value) for value in places if finite(value) is not None), None)

    @property
    def validation_loss(self) -> float | None:
        known = self.figure("val_loss")
        points = [value for value in self.series("val/loss")[1] if value is not None]
        return known if known is not None else (points[-1] if points else None)


def check_run(run: Run) -> Run:
    """The run, when it has a loss to show."""
    if not any(run.series(key)[0] for key in ("train/loss", "val/loss")):
        raise RunError(
            f"{run.folder / 'metrics.jsonl'} has no losses: {len(run.lines)} lines, none with "
            "`tokens` and `train/loss` or `val/loss`\n  next: let the run reach its first log step"
        )
    return run


def arms_inside(place: Path, group: str, variant: str = "") -> list[Run]:
    runs = []
    for folder in sorted(place.iterdir()):
        match = re.fullmatch(r"(.+)-s(\d+)", folder.name)
        if match and (folder / "metrics.jsonl").is_file():
            runs.append(Run(folder, match[1], int(match[2]), group, variant=variant))
    return runs


def arms_of_folders(folder: Path) -> list[Run]:
    """Of a comparison that has not ended: what stands in arms/, or in arms/VARIANT/."""
    group = folder.resolve().name
    runs = arms_inside(folder / "arms", group)
    for place in sorted((folder / "arms").iterdir()):
        if place.is_dir() and not (place / "metrics.jsonl").is_file():
            runs += arms_inside(place, group, place.name)
    return runs


def arms_of_entries(folder: Path, content: dict) -> list[Run]:
    where = folder / "compare.json"
    arms = content.get("arms")
    if not isinstance(arms, list) or not arms:
        raise RunError(f"{where} lists no arms\n  next: let the comparison finish its first arm")
    runs = []
    for entry in arms:
        known = entry if isinstance(entry, dict) else {}
        named = [known.get(key) for key in ("setting", "run")]
        if not all(isinstance(name, str) for name in named):
            raise RunError(f"{where}: an arm without `setting` or `run`: {entry}")
        setting, run = named
        place = folder / run
        group, variant = folder.resolve().name, str(entry.get("variant") or "")
        runs.append(Run(place, setting, entry.get("seed"), group, variant=variant, entry=entry))
    return runs


def not_a_run(folder: Path) -> RunError:
    return RunError(f"there is no metrics.jsonl in {folder}\n  next: {GIVE_A_RUN}")
