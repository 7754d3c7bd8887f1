"""Qwen3 with knocking heads as a model family of torchtitan 0.2.2, registered from outside.

    torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file examples/torchtitan/train.toml

with this folder in PYTHONPATH. `experimental.custom_import` of the file imports this module, which
registers the family "qwen3_kha"; its flavours are torchtitan's own with a setting behind a plus,
"0.6B+kha-mlp". Sharding, compile, checkpoints and data stay torchtitan's.
"""

from dataclasses import dataclass, fields, replace

import torch
from datasets import load_dataset
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.qwen3 import Qwen3Model, Qwen3ModelArgs, get_train_spec, qwen3_args
from torchtitan.models.qwen3.model.state_dict_adapter import Qwen3StateDictAdapter
from torchtitan.protocols.train_spec import register_train_spec

import knocking_heads as kh

SETTINGS = ["kha-linear", "kha-linear-v", "kha-mlp", "kha-mlp-qkv", "kha-gate-v"]
PROJECTIONS = {"q": "attention.wq", "k": "attention.wk", "v": "attention.wv", "o": "attention.wo"}
MATRICES = ["weight", "up.weight", "gate.weight", "down.weight"]


@dataclass
class KnockingQwen3Args(Qwen3ModelArgs):
    knock: str = "kha-mlp"


class KnockingQwen3(Qwen3Model):
    """torchtitan makes it on the meta device, shards it and then asks for its start values."""

    def __init__(self, args: KnockingQwen3Args) -> None:
        super().__init__(args)
        kh.insert(self, args.knock, projections=PROJECTIONS, head_dim=args.head_dim)

    def init_weights(self, buffer_device: torch.device | None = None) -> None:
        super().init_weights(buffer_device)
        for module in self.modules():
            if isinstance(module, kh.KnockingHeads):
                module.reset_parameters()


class KnockingQwen3Names(Qwen3StateDictAdapter):
    """The names of the maps in a model folder, beside torchtitan's own table."""

    def __init__(self, args: KnockingQwen3Args, hf_assets_path: str | None) -> None:
        super().__init__(args, hf_assets_path)
        for slot in "qkv":
            for matrix in MATRICES:
                self.from_hf_map[f"model.layers.{{}}.self_attn.knock_{slot}.{matrix}"] = (
                    f"layers.{{}}.attention.knock_{slot}.{matrix}")


def _with_maps(plain: Qwen3ModelArgs, setting: str) -> KnockingQwen3Args:
    values = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return KnockingQwen3Args(**values, knock=setting)


# Small enough for two processes on a CPU.
_flavours = {**qwen3_args, "tiny": replace(
    qwen3_args["debugmodel"], vocab_size=512, head_dim=32, dim=64, n_layers=2, n_heads=4,
    n_kv_heads=2, hidden_dim=128)}

register_train_spec("qwen3_kha", replace(
    get_train_spec(),
    model_cls=KnockingQwen3,
    model_args={f"{name}+{setting}": _with_maps(args, setting)
                for name, args in _flavours.items() for setting in SETTINGS},
    state_dict_adapter=KnockingQwen3Names))

# Text of one's own: training.dataset = "text", training.dataset_path = a pattern of files.
DATASETS["text"] = DatasetConfig(
    path="", loader=lambda path: load_dataset("text", data_files=path, split="train"),
    sample_processor=lambda sample: sample["text"])
