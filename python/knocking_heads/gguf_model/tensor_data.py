"""Tensors into the file, one at a time, in the type that each has there."""

import os
import re
from pathlib import Path

import gguf
import numpy as np
from user_error import UserError

from .strict_keys import KeyWriter
from .tensor_plan import PlannedTensor

OUTPUT_TYPES = {
    "float32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "float16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bfloat16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}


def type_of(tensor: PlannedTensor, dtype: str) -> gguf.GGMLQuantizationType:
    """Norms, biases, routers and everything of one dimension stay F32; rows that Q8_0 cannot cut
    into its blocks of 32 stay F16."""
    if tensor.exact or len(tensor.shape) < 2:
        return gguf.GGMLQuantizationType.F32
    wanted = OUTPUT_TYPES[dtype][0]
    block = gguf.GGML_QUANT_SIZES[wanted][0]
    return wanted if tensor.shape[-1] % block == 0 else gguf.GGMLQuantizationType.F16


def byte_size(shape: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> int:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    return int(np.prod(shape, dtype=np.int64)) // block * size


def checked(values: np.ndarray, name: str, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """Finite values that stay finite in the type; the scale of a Q8_0 block is an F16."""
    largest = np.abs(values).max(initial=0.0)
    most = {gguf.GGMLQuantizationType.F16: 65504.0,
            gguf.GGMLQuantizationType.Q8_0: 65504.0 * 127}.get(kind, np.finfo(np.float32).max)
    if largest <= most:
        return values
    raise UserError(f"{name} would not be finite in the file", expected=f"values up to {most:g}",
                    found=f"{largest:g}", cause=f"too large for {kind.name}, or not finite before",
                    next="export with --dtype bfloat16 or float32")


def data_of(folder, tensor: PlannedTensor, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """The bytes of the file, one source after the other."""
    if tensor.constant is not None:
        return gguf.quantize(tensor.constant, kind)
    parts = []
    for source in tensor.sources:
        values = checked(tensor.change(folder.floats(source)), source, kind)
        parts.append(gguf.quantize(np.ascontiguousarray(values), kind).view(np.uint8).reshape(-1))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def write_tensors(writer: KeyWriter, folder, plan: list[PlannedTensor], dtype: str) -> None:
    """Header, keys and tensors; in memory of one tensor."""
    kinds = [type_of(tensor, dtype) for tensor in plan]
    for tensor, kind in zip(plan, kinds):
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32),
                               byte_size(tensor.shape, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor, kind in zip(plan, kinds):
        writer.write_tensor_data(data_of(folder, tensor, kind))
    writer.flush()
    for file in writer.fout:
        os.fsync(file.fileno())
    writer.close()


def summary(path: Path, plan: list[PlannedTensor], dtype: str) -> dict:
    """What was written, for the reader."""
    kinds = {tensor.name: type_of(tensor, dtype) for tensor in plan}
    names = [kind.name for kind in kinds.values()]
    not_cut = dict.fromkeys(re.sub(r"^blk\.\d+", "blk.*", name) for name, kind in kinds.items()
                            if dtype == "q8_0" and kind == gguf.GGMLQuantizationType.F16)
    return {"tensors": len(plan), "types": {name: names.count(name) for name in sorted(set(names))},
            "bytes": path.stat().st_size, "kept_float16": list(not_cut)}
