"""A plain Hugging Face folder whose tensors are read one at a time, straight from the files."""

import json
from pathlib import Path

import numpy as np
from gguf.utility import LocalTensor, SafetensorsLocal
from user_error import UserError

READERS = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


def read_json(file: Path) -> dict:
    """An object of a file, empty where the file is missing."""
    if not file.is_file():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError("the file is no JSON", where=str(file), found=str(error)) from error


class PlainFolder:
    """config.json and safetensors files of one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config = read_json(folder / "config.json")
        self.generation = read_json(folder / "generation_config.json")
        self._tensors: dict[str, LocalTensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            self._tensors |= SafetensorsLocal(file).tensors

    def names(self) -> list[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def bytes_of(self, name: str) -> np.ndarray:
        return self._tensors[name].mmap_bytes()

    def floats(self, name: str) -> np.ndarray:
        """The tensor in float32."""
        tensor = self._tensors[name]
        raw = tensor.mmap_bytes()
        if tensor.dtype == "BF16":
            values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif tensor.dtype in READERS:
            values = raw.view(READERS[tensor.dtype]).astype(np.float32)
        else:
            raise UserError("a tensor is of a type that is not written as GGUF", where=name,
                            expected=f"BF16, {', '.join(READERS)}", found=tensor.dtype)
        return values.reshape(tensor.shape)
