"""Knocking-heads attention for PyTorch.

Importing the package loads the ``kha::`` operators into ``torch.ops.kha``. They are compiled code
with autograd of their own; nothing is computed in Python.
"""

import os
import sys
from pathlib import Path

__all__ = ["load_operators"]


def _library_path() -> Path:
    named = os.environ.get("KHA_OPS_LIBRARY")
    return Path(named) if named else Path(sys.prefix) / "lib" / "libkha_ops.so"


def load_operators() -> Path:
    """Loads the operator library, once a process, and returns its path.

    The library is ``lib/libkha_ops.so`` of the running Python's prefix, or the file that the
    variable ``KHA_OPS_LIBRARY`` names. Raises ImportError where it is missing or was built for
    another torch.
    """
    path = _library_path()
    if not path.is_file():
        raise ImportError(
            f"the operator library is not at {path}: run `make build`, use the Python it installs "
            "into (.venv/bin/python), or name the file in KHA_OPS_LIBRARY"
        )
    import torch

    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} does not load into torch {torch.__version__}, likely because it was built for "
            f"another: run `make build` again ({error})"
        ) from error
    return path


load_operators()

# What needs the operators; none of it imports transformers or matplotlib before it is called.
from .errors import KhaError  # noqa: E402
from .folding import FoldReport, fold  # noqa: E402
from .groups import parameter_groups  # noqa: E402
from .insertion import insert, plan  # noqa: E402
from .map_report import MapReport, report  # noqa: E402
from .modules import KnockingHeads  # noqa: E402
from .operators import knock_gate, knock_linear, knock_mlp, knocked_linear  # noqa: E402
from .saving import load  # noqa: E402

__all__ += ["FoldReport", "KhaError", "KnockingHeads", "MapReport", "fold", "insert", "knock_gate",
            "knock_linear", "knock_mlp", "knocked_linear", "load", "parameter_groups", "plan",
            "report"]  # fmt: skip
