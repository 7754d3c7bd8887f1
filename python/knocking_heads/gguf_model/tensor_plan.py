"""Which tensors of a plain folder become which of the file, and how they change."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import gguf
import numpy as np
from user_error import UserError

from .architecture import Architecture
from .plain_folder import PlainFolder

EXPERT = re.compile(r"(model\.layers\.\d+\.mlp\.experts)\.(\d+)\.(\w+_proj)\.weight")
ROUTER = "ffn_gate_inp"
LATENTS = {"q_a_proj": "q_lora_rank", "kv_a_proj_with_mqa": "kv_lora_rank"}  # rows before a norm
LATENT_EPSILON = 1e-6


def unchanged(values: np.ndarray) -> np.ndarray:
    return values


@dataclass(frozen=True)
class PlannedTensor:
    """One tensor of the file: a change of one tensor, or of several that are stacked."""

    name: str
    sources: tuple[str, ...]
    shape: tuple[int, ...]  # slowest dimension first; the file has it the other way round
    exact: bool = False  # stays F32 whatever the type of the others
    change: Callable[[np.ndarray], np.ndarray] = unchanged
    constant: np.ndarray | None = None  # written where there is no source


def to_adjacent_pairs(heads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rows of each head from half-split rotary order to pairs side by side, as llama.cpp turns
    them in Llama-type models; of matrices and of biases."""

    def change(rows: np.ndarray) -> np.ndarray:
        halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
        return halves.swapaxes(1, 2).reshape(rows.shape)

    return change


def key_half(heads: int, keys: int) -> Callable[[np.ndarray], np.ndarray]:
    """From kv_b_proj [heads * (keys + values), latent]: the keys of each head, transposed."""

    def change(both: np.ndarray) -> np.ndarray:
        return both.reshape(heads, -1, both.shape[-1])[:, :keys].swapaxes(1, 2)

    return change


def value_half(heads: int, keys: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(both: np.ndarray) -> np.ndarray:
        return both.reshape(heads, -1, both.shape[-1])[:, keys:]

    return change


def scaled_rows(count: int, factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """The first rows times a factor, rounded once."""

    def change(rows: np.ndarray) -> np.ndarray:
        changed = rows.astype(np.float64)
        changed[:count] *= factor
        return changed.astype(np.float32)

    return change


class TensorPlanner:
    """Names of the gguf package's map for the architecture, changes by what a tensor is."""

    def __init__(self, folder: PlainFolder, architecture: Architecture):
        self.folder = folder
        self.architecture = architecture
        blocks = folder.config["num_hidden_layers"]
        self.names = gguf.get_tensor_name_map(architecture.kind, blocks)

    def plan(self) -> list[PlannedTensor]:
        stacked: dict[str, list[tuple[int, str]]] = {}
        planned: list[PlannedTensor] = []
        for name in self.folder.names():
            expert = EXPERT.fullmatch(name)
            if expert:
                whole = f"{expert[1]}.{expert[3]}.weight"
                stacked.setdefault(whole, []).append((int(expert[2]), name))
            elif not self.repeats_the_embedding(name):
                planned += self.plain(name)
        planned += [self.experts(whole, parts) for whole, parts in stacked.items()]
        factors = self.architecture.rotary_factors
        if factors is not None:
            planned.append(PlannedTensor("rope_freqs.weight", (), factors.shape, constant=factors))
        return planned

    def repeats_the_embedding(self, name: str) -> bool:
        """A copied head is left out: every architecture here takes the embedding then."""
        embedding = "model.embed_tokens.weight"
        return (name == "lm_head.weight"
                and self.folder.shape(name) == self.folder.shape(embedding)
                and np.array_equal(self.folder.bytes_of(name), self.folder.bytes_of(embedding)))

    def new_name(self, name: str) -> str:
        found = self.names.get_name(name, try_suffixes=(".weight", ".bias"))
        if found:
            return found
        raise UserError("a tensor has no place in this GGUF architecture", where=name,
                        found=f"architecture {self.architecture.name}",
                        next="kha export --to hf writes the model for transformers")

    def experts(self, whole: str, parts: list[tuple[int, str]]) -> PlannedTensor:
        sources = tuple(name for _, name in sorted(parts))
        return PlannedTensor(self.new_name(whole), sources,
                             (len(sources), *self.folder.shape(sources[0])))

    def plain(self, name: str) -> list[PlannedTensor]:
        shape = self.folder.shape(name)
        if name.endswith("self_attn.kv_b_proj.weight"):
            return self.latent_halves(name, shape)
        target = self.new_name(name.replace("e_score_correction_bias", "e_score_correction.bias"))
        exact = "norm" in name or ROUTER in target
        return [PlannedTensor(target, (name,), shape, exact, self.change_of(name))]

    def change_of(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        if self.architecture.adjacent_pairs and "self_attn.q_proj." in name:
            return to_adjacent_pairs(self.folder.config["num_attention_heads"])
        if self.architecture.adjacent_pairs and "self_attn.k_proj." in name:
            return to_adjacent_pairs(self.folder.config["num_key_value_heads"])
        for projection, latent in LATENTS.items():
            if f"self_attn.{projection}." in name and self.epsilon_factor() != 1:
                return scaled_rows(self.folder.config[latent], self.epsilon_factor())
        return unchanged

    def epsilon_factor(self) -> float:
        """The DeepSeek classes leave the latents' norms at 1e-6, llama.cpp gives them the epsilon
        e of the others: x s / sqrt(mean(x^2) s^2 + e) is x / sqrt(mean(x^2) + e / s^2)."""
        return math.sqrt(self.folder.config["rms_norm_eps"] / LATENT_EPSILON)

    def latent_halves(self, name: str, shape: tuple[int, ...]) -> list[PlannedTensor]:
        config = self.folder.config
        heads, keys = config["num_attention_heads"], config["qk_nope_head_dim"]
        values, latent = config["v_head_dim"], shape[-1]
        return [PlannedTensor(self.new_name(name.replace("kv_b_proj", "k_b_proj")), (name,),
                              (heads, latent, keys), False, key_half(heads, keys)),
                PlannedTensor(self.new_name(name.replace("kv_b_proj", "v_b_proj")), (name,),
                              (heads, values, latent), False, value_half(heads, keys))]
