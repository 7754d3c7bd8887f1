"""Model folders: what an inserted model writes, and how such folders open again.

A folder with maps says ``model_type: kha`` and never the type of the plain model, which would open
without its maps and without a word (docs/design.md, "Models on disk").
"""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .description import kha_config, knocks_of, read_description
from .errors import fail
from .places import maps_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_FILES = Path(__file__).resolve().parent / "hf_model"  # copied into model folders


class SavePretrained:
    """`model.save_pretrained` while the model has maps: writes a kha folder.

    An object and no closure, so that a copied or unpickled model saves itself and not the first.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, save_directory: str | os.PathLike[str], is_main_process: bool = True,
                 state_dict: dict[str, Any] | None = None, push_to_hub: bool = False,
                 distributed_checkpoint: bool = False, **options: Any) -> None:
        """Arguments of transformers' `save_pretrained`. Every file is written aside first, and
        config.json takes its place last. Raises KhaError where the model has no form as a kha
        folder, and for `push_to_hub` and `distributed_checkpoint`."""
        for name, asked in (("push_to_hub", push_to_hub),
                            ("distributed_checkpoint", distributed_checkpoint)):
            if asked:
                fail(f"a model with maps does not save with {name}",
                     next="save to a folder, then upload it" if name == "push_to_hub" else
                          "save without it, or the state dict with torch.distributed.checkpoint")
        model: Any = self.model
        write = type(model).save_pretrained
        if state_dict is not None:
            options["state_dict"] = state_dict
        if not maps_of(model):  # they were folded away through a wrapper of the model
            write(model, save_directory, is_main_process=is_main_process, **options)
            return
        config = kha_config(model)  # refuses before anything is written
        decide = getattr(model, "should_save_on_this_rank", lambda main: main)
        target = Path(save_directory)
        if not decide(is_main_process):
            with tempfile.TemporaryDirectory() as nowhere:  # its part in gathering the weights
                write(model, nowhere, is_main_process=is_main_process, **options)
            return
        target.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".kha-", dir=target))
        try:
            write(model, aside, is_main_process=is_main_process, **options)
            (aside / "config.json").write_text(config)
            for file in MODEL_FILES.glob("*_kha.py"):
                shutil.copyfile(file, aside / file.name)
            _move(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


# The names that transformers gives to weights without a variant.
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")


def _move(aside: Path, target: Path) -> None:
    """Weights first, config.json last; then weights of an older save under other names go, which
    readers would take for part of this one."""
    files = sorted(aside.iterdir(), key=lambda file: file.name == "config.json")
    names = {file.name for file in files}
    for file in files:
        os.replace(file, target / file.name)
    if any(_WEIGHTS.fullmatch(name) for name in names):
        for old in target.iterdir():
            if _WEIGHTS.fullmatch(old.name) and old.name not in names:
                old.unlink()


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
    chosen = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it would call the maps unexpected
    try:
        model, loading = chosen.from_pretrained(path, config=config, dtype=dtype,
                                                output_loading_info=True)
    finally:
        transformers.logging.set_verbosity(level)
    _insert_all(model, knocks)
    _check_loading(loading, model, path)
    _read_maps(model, path)
    return model


def _insert_all(model: nn.Module, knocks: dict[int, dict[str, str]]) -> None:
    from .insertion import insert

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
    import json

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
