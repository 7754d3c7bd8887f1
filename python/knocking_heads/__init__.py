"""Knocking-heads attention for PyTorch.

Importing the package loads the ``kha::`` operators into ``torch.ops.kha``. They are compiled code
with autograd of their own; training runs through them, and what Python computes itself (folding,
figures of the maps) is float64 and tested against the programs.
"""

from .library import load_operators

__all__ = ["load_operators"]

load_operators()

# What needs the operators; none of it imports transformers or matplotlib before it is called.
from .errors import KhaError  # noqa: E402
from .folding import FoldReport, fold  # noqa: E402
from .groups import parameter_groups  # noqa: E402
from .insertion import insert, plan  # noqa: E402
from .loading import load  # noqa: E402
from .map_report import MapReport, report  # noqa: E402
from .modules import KnockingHeads  # noqa: E402
from .operators import knock_gate, knock_linear, knock_mlp, knocked_linear  # noqa: E402

__all__ += ["FoldReport", "KhaError", "KnockingHeads", "MapReport", "fold", "insert", "knock_gate",
            "knock_linear", "knock_mlp", "knocked_linear", "load", "parameter_groups", "plan",
            "report"]  # fmt: skip
