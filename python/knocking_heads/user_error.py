"""Errors for users, worded as the C++ side words them."""

import shutil
import sys
from pathlib import Path

LABELS = ("where", "expected", "found", "cause", "next")


class UserError(Exception):
    """What failed, in one sentence, and where, expected, found, cause and next as keywords."""

    def __init__(self, what: str, **parts: str):
        unknown = set(parts) - set(LABELS)
        if unknown:
            raise TypeError(f"no such part of a message: {sorted(unknown)}")
        lines = [what] + [f"  {label + ':':<9} {parts[label]}" for label in LABELS if label in parts]
        super().__init__("\n".join(lines))


def print_error(error: UserError) -> int:
    """The message on standard error; returns the exit code of bad input."""
    print(f"error: {error}", file=sys.stderr)
    return 2


def program_beside(name: str) -> Path:
    """A program of kha: beside this one, beside Python, or in PATH."""
    for folder in (Path(sys.argv[0]).resolve().parent, Path(sys.executable).parent):
        if (folder / name).is_file():
            return folder / name
    found = shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not installed beside this program", where=sys.argv[0],
                        next="make build in the checkout, or pip install it again")
    return Path(found)
