"""Errors for users, worded as the C++ side words them."""

import sys

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
