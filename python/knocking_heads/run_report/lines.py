"""Reads the line files of a run: JSON objects, one a line, the last perhaps half written."""

import json
import math
from pathlib import Path

GIVE_A_RUN = "give the folder of a run (metrics.jsonl) or of a comparison (compare.json)"


class RunError(Exception):
    """Bad input, said in whole sentences."""


def read_json(text: str, where: str) -> dict:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RunError(f"{where} is not JSON: {error}\n  found: {text[:60]}") from error
    if not isinstance(value, dict):
        raise RunError(f"{where} is not a JSON object\n  found: {text[:60]}")
    return value


def finite(value) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def read_lines(path: Path) -> list[dict]:
    if not path.is_file():
        raise RunError(f"there is no {path.name} in {path.parent}\n  next: {GIVE_A_RUN}")
    *lines, last = path.read_text(errors="replace").split("\n")
    if last.endswith("}"):  # otherwise it is empty, or half a line of a run that is writing
        lines.append(last)
    return [
        read_json(line, f"{path}, line {n},") for n, line in enumerate(lines, 1) if line.strip()
    ]


def has_half_a_line(path: Path) -> bool:
    return bool(path.read_text(errors="replace").rpartition("\n")[2].strip())
