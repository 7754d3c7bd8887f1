"""How a refusal is said: what failed, where, what was expected and found, what to do next."""

from typing import NoReturn


class KhaError(ValueError):
    """A request that cannot be met as it stands. Nothing was changed when it is raised."""


def fail(what: str, *, where: str = "", expected: str = "", found: str = "",
         cause: str = "", next: str = "") -> NoReturn:
    """Raises KhaError with the parts that are given, one a line."""
    parts = {"where": where, "expected": expected, "found": found, "cause": cause, "next": next}
    lines = [f"  {name}: {text}" for name, text in parts.items() if text]
    raise KhaError("\n".join([what, *lines]))


def nearest(name: str, allowed: list[str]) -> str:
    """The words ``; did you mean `x`?`` for a name that is nearly one of `allowed`, else nothing."""
    import difflib

    found = difflib.get_close_matches(name, allowed, n=1)
    return f"; did you mean `{found[0]}`?" if found else ""
