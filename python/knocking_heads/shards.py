"""The identity as a sharded matrix has it: each process its own rows."""

import functools
from typing import Any

import torch
from torch import Tensor

from .errors import fail


def identity_part(parameter: Tensor) -> tuple[Tensor, Tensor]:
    """The part of the square matrix that lies on this process, and that part of the identity.

    The second is shared: read it, never write it. Raises KhaError where the matrix is not cut by
    rows, as fully_shard cuts.
    """
    if parameter.dim() != 2:
        fail("a map was made flat, so its decay to the identity is not known", found=str(list(
             parameter.shape)), expected="a matrix, whole or sharded by fully_shard",
             cause="FullyShardedDataParallel or another wrapper that flattens parameters",
             next='parameter_groups(model, knock_decay="none"), or fully_shard(model)')
    first, count, part = 0, parameter.shape[0], parameter
    if hasattr(parameter, "to_local"):
        first, count = _rows_here(parameter)
        part = parameter.to_local()
    return part, _identity(parameter.shape[1], part.dtype, part.device)[first : first + count]


def start_at_identity(parameter: Tensor) -> None:
    """Makes the whole matrix the identity, wherever its rows lie."""
    if hasattr(parameter, "to_local"):  # torch's eye_ would write a whole identity into each part
        own, start = identity_part(parameter)
        own.copy_(start)
    else:
        torch.nn.init.eye_(parameter)


def _rows_here(parameter: Any) -> tuple[int, int]:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements)
    if shape[1] != parameter.shape[1]:
        fail("a map is sharded by columns, where the identity's part is not known",
             expected="sharding by rows, as fully_shard does", found=str(list(shape)))
    return offset[0], shape[0]


@functools.cache
def _identity(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.eye(width, dtype=dtype, device=device)
