"""Finds the operator library and loads it into torch."""

import os
import sys
from pathlib import Path

from .fit import PACKAGE, misfit


def library_path() -> Path:
    """The library that `load_operators` loads, whether it is there or not."""
    named = os.environ.get("KHA_OPS_LIBRARY")
    if named:
        return Path(named)
    own = PACKAGE / "lib" / "libkha_ops.so"  # of an installed wheel
    return own if own.is_file() else Path(sys.prefix) / "lib" / "libkha_ops.so"


def load_operators() -> Path:
    """Loads the operator library, once a process, and returns its path.

    The library is ``lib/libkha_ops.so`` of this package or of the running Python's prefix, or the
    file that the variable ``KHA_OPS_LIBRARY`` names. Raises ImportError where it is missing or was
    built for another torch.
    """
    path = library_path()
    if not path.is_file():
        raise ImportError(
            f"the operator library is not at {path}: run `make build`, use the Python it installs "
            "into (.venv/bin/python), or name the file in KHA_OPS_LIBRARY"
        )
    import torch

    if sentence := misfit(path, torch.__version__, torch.compiled_with_cxx11_abi()):
        raise ImportError(sentence)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} does not load into torch {torch.__version__}, likely because it was built for "
            f"another: run `make build` again ({error})"
        ) from error
    return path
