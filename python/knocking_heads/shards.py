"""The identity as a sharded matrix has it: each process its own rows."""

import torch
from torch import Tensor

from .errors import fail


def identity_part(parameter: Tensor) -> tuple[Tensor, Tensor]:
    """The part of the square matrix that lies on this process, and that part of the identity.

    Raises KhaError where it is not cut by rows, as fully_shard cuts.
    """
    first, count, whole = 0, parameter.shape[0], parameter
    if hasattr(parameter, "to_local"):
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        shape, offset = compute_local_shape_and_global_offset(
            parameter.shape, parameter.device_mesh, parameter.placements)  # type: ignore[attr-defined]
        if shape[1] != parameter.shape[1]:
            fail("a map is sharded by columns, where the identity's part is not known",
                 expected="sharding by rows, as fully_shard does", found=str(list(shape)))
        first, count, whole = offset[0], shape[0], parameter.to_local()
    identity = torch.eye(parameter.shape[1], dtype=whole.dtype, device=whole.device)
    return whole, identity[first:first + count]
