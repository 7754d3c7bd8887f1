"""Model folders with maps, opened as transformers' own class with the maps inserted."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .description import knocks_of, read_description
from .errors import fail
from .insertion import insert
from .places import maps_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load(folder: str | os.PathLike[str], dtype: torch.dtype | str = "auto") -> "PreTrainedModel":
    """Opens a model folder of kha in transformers' own class, its maps inserted as modules.

    `folder` is what ``kha insert``, ``kha train`` (a run, or one of its checkpoints) or an inserted
    model's `save_pretrained` wrote, with a grouped-query attention and a type that `insert` knows;
    a folder without maps opens as the plain model that it is. `dtype` is that of the tensors where
    it is "auto". Raises KhaError for other folders, and where tensors are missing or left over.
    """
    import transformers

    path = Path(folder)
    if (path / "checkpoints" / "latest").exists():
        path = path / "checkpoints" / "latest"
    description = read_description(path)
    if "kha" not in description:
        return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    base, knocks, settings = knocks_of(description, str(path / "config.json"))
    config = transformers.AutoConfig.for_model(base, **settings)
    model, loading = _open_plain(path, config, dtype)
    _insert_all(model, knocks)
    _check_loading(loading, model, path)
    _read_maps(model, path)
    return model


def _open_plain(path: Path, config: Any, dtype: torch.dtype | str) -> tuple[Any, dict[str, Any]]:
    """The model without its maps, and what transformers says of the tensors it found."""
    import transformers

    chosen = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it would call the maps unexpected
    try:
        return chosen.from_pretrained(path, config=config, dtype=dtype, output_loading_info=True)
    finally:
        transformers.logging.set_verbosity(level)


def _insert_all(model: nn.Module, knocks: dict[int, dict[str, str]]) -> None:
    for layer, kinds in knocks.items():
        if kinds:
            insert(model, kinds, layers=[layer])


def _check_loading(loading: dict[str, Any], model: nn.Module, path: Path) -> None:
    maps = {f"{place.name}.{name}" for place in maps_of(model) for name in place.knock.matrices()}
    odd = {"missing": set(loading["missing_keys"]) | (maps - set(loading["unexpected_keys"])),
           "not of this model": set(loading["unexpected_keys"]) - maps,
           "of another shape": {str(key) for key in loading["mismatched_keys"]}}
    for what, names in odd.items():
        if names:
            fail(f"tensors are {what}", where=str(path), found=", ".join(sorted(names)[:4]),
                 cause="config.json and the weights belong to different models",
                 next=f"kha inspect {path}")


def _read_maps(model: nn.Module, path: Path) -> None:
    from safetensors import safe_open

    index = path / "model.safetensors.index.json"
    files = json.loads(index.read_text())["weight_map"] if index.exists() else {}
    for place in maps_of(model):
        for name, parameter in place.knock.matrices().items():
            whole = f"{place.name}.{name}"
            with safe_open(path / files.get(whole, "model.safetensors"), framework="pt") as file:
                value = file.get_tensor(whole)
            if value.shape != parameter.shape:
                fail(f"{whole} does not fit its map", where=str(path),
                     expected=str(list(parameter.shape)), found=str(list(value.shape)))
            parameter.data.copy_(value)
