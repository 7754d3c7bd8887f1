"""Entry points of an installed wheel: ``kha-engine`` and the companions ``kha-NAME``.

A module of its own beside the package, since importing the package loads torch. ``kha`` needs none:
it is a program by itself, and finds these beside it.
"""

import functools
import os
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

PACKAGE = Path(__file__).resolve().parent / "knocking_heads"


def _stop(sentence: str) -> NoReturn:
    print(f"kha-engine: {sentence}", file=sys.stderr)
    sys.exit(2)


def _torch_folder() -> Path:
    """Where torch is installed; found, not imported, which would take seconds."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        step = f"{sys.executable} -m pip install 'torch>=2.11'"
        _stop(f"{sys.executable} has no torch; install it: {step}")
    return Path(found.origin).parent


def _check_fit(torch: Path) -> None:
    version = re.search(r"__version__ = '([^']+)'", (torch / "version.py").read_text())
    fit = runpy.run_path(str(PACKAGE / "fit.py"))
    if sentence := fit["misfit"](PACKAGE / "lib" / "libkha_ops.so", version.group(1)):
        _stop(sentence)


def engine() -> None:
    """Becomes the engine inside the package."""
    torch = _torch_folder()
    _check_fit(torch)
    # The engine looks for torch beside the package; it may lie in another site folder.
    if torch.parent != PACKAGE.parent:
        folders = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    os.environ["KHA_PROGRAMS"] = os.path.dirname(os.path.realpath(sys.argv[0]))
    program = str(PACKAGE / "bin" / "kha-engine")
    os.execv(program, [program, *sys.argv[1:]])


def _companion(module: str) -> None:
    """Runs a module of the package as a program, without importing the package."""
    runpy.run_path(str(PACKAGE / f"{module}.py"), run_name="__main__")


def __getattr__(name: str):
    if (PACKAGE / f"{name}.py").is_file():
        return functools.partial(_companion, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
