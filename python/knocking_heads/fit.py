"""Whether the operators that are installed fit a torch. Stands alone: no import but json's.

A library built with LibTorch works with the minor version of torch whose headers it was compiled
with. Beside it lies ``libkha_ops.json``, which says what those were.
"""

import json
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def record_of(library: Path) -> dict:
    """What is written beside `library`, or nothing: a library by itself is taken as it is."""
    record = library.with_suffix(".json")
    return json.loads(record.read_text()) if record.is_file() else {}


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def next_step(library: Path) -> str:
    """The command that makes `library` again: a wheel has it inside the package."""
    if PACKAGE in library.parents:
        return (
            f"install it for this torch: {sys.executable} -m pip install --force-reinstall "
            "--no-deps --no-cache-dir FOLDER_OF_THE_SOURCES"
        )
    return "run `make build` again"


def misfit(library: Path, torch_version: str, cxx11_abi: bool = True) -> str | None:
    """One sentence that says why `library` does not fit that torch and what to do; None if it fits.

    `torch_version` is ``torch.__version__``; `cxx11_abi` whether that torch was compiled with the
    string of C++11.
    """
    built = record_of(library)
    if not built:
        return None
    step = next_step(library)
    if minor(built["torch"]) != minor(torch_version):
        return (
            f"knocking-heads was built with torch {built['torch']} and this Python has torch "
            f"{torch_version}; {step}"
        )
    if built["cxx11_abi"] != cxx11_abi:
        return (
            f"knocking-heads was built with _GLIBCXX_USE_CXX11_ABI={int(built['cxx11_abi'])} and "
            f"the torch of this Python with {int(cxx11_abi)}; {step}"
        )
    return None
