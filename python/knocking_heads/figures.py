"""Figures of one map's matrix, the same numbers as ``kha inspect --json`` gives."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class MatrixFigures:
    """NaN throughout where the matrix is not finite.

    identity_distance: ``||M - I||_F / sqrt(D)``, for a gate ``||G||_F / sqrt(D)``. condition: the
    largest singular value over the smallest, infinite where the matrix is singular.
    off_diagonal_share: of the sum of squares.
    """

    identity_distance: float
    condition: float
    diagonal_mean: float
    diagonal_min: float
    diagonal_max: float
    off_diagonal_share: float


def condition_number(matrix: Tensor) -> float:
    """Of a square matrix, in float64; NaN where it is not finite."""
    wide = matrix.detach().double()
    if not wide.isfinite().all():
        return math.nan
    singular = torch.linalg.svdvals(wide)
    largest, smallest = float(singular[0]), float(singular[-1])
    rounding = len(wide) * torch.finfo(torch.float64).eps
    return math.inf if smallest <= rounding * largest else largest / smallest


def matrix_figures(matrix: Tensor, starts_at_identity: bool) -> MatrixFigures:
    wide = matrix.detach().double()
    if not wide.isfinite().all():
        return MatrixFigures(*[math.nan] * 6)
    diagonal = wide.diagonal()
    off = (wide - torch.diag(diagonal)).square().sum()
    whole = wide.square().sum()
    moved = off + (diagonal - (1.0 if starts_at_identity else 0.0)).square().sum()
    return MatrixFigures(
        identity_distance=math.sqrt(float(moved) / len(wide)),
        condition=condition_number(wide),
        diagonal_mean=float(diagonal.mean()),
        diagonal_min=float(diagonal.min()),
        diagonal_max=float(diagonal.max()),
        off_diagonal_share=float(off / whole) if whole > 0 else 0.0,
    )
