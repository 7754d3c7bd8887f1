"""Model folders: what an inserted model writes. How they open again: loading.py.

A folder with maps says ``model_type: kha`` and never the type of the plain model, which would open
without its maps and without a word (docs/design.md, "Models on disk").
"""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from .description import kha_config
from .errors import fail
from .places import maps_of

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
        _refuse(push_to_hub=push_to_hub, distributed_checkpoint=distributed_checkpoint)
        if state_dict is not None:
            options["state_dict"] = state_dict
        model: Any = self.model
        if not maps_of(model):  # they were folded away through a wrapper of the model
            _write(model, save_directory, is_main_process, options)
            return
        config = kha_config(model)  # refuses before anything is written
        decide = getattr(model, "should_save_on_this_rank", lambda main: main)
        if decide(is_main_process):
            _write_with_maps(model, config, Path(save_directory), is_main_process, options)
            return
        with tempfile.TemporaryDirectory() as nowhere:  # its part in gathering the weights
            _write(model, nowhere, is_main_process, options)


def _refuse(**asked: bool) -> None:
    for name in (name for name, wanted in asked.items() if wanted):
        fail(f"a model with maps does not save with {name}",
             next="save to a folder, then upload it" if name == "push_to_hub" else
                  "save without it, or the state dict with torch.distributed.checkpoint")


def _write(model: Any, folder: str | os.PathLike[str], is_main_process: bool,
           options: dict[str, Any]) -> None:
    """As transformers would have saved it."""
    type(model).save_pretrained(model, folder, is_main_process=is_main_process, **options)


def _write_with_maps(model: Any, config: str, target: Path, is_main_process: bool,
                     options: dict[str, Any]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".kha-", dir=target))
    try:
        _write(model, aside, is_main_process, options)
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
