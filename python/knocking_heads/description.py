"""config.json of a model with maps, as the programs write and read it (docs/design.md)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from torch import nn

from .errors import fail
from .places import FAMILIES, maps_of
from .settings import SLOTS, check_kind

AUTO_MAP = {"AutoConfig": "configuration_kha.KhaConfig", "AutoModel": "modeling_kha.KhaModel",
            "AutoModelForCausalLM": "modeling_kha.KhaForCausalLM"}

# Without a window Mistral is a Llama; the programs know it by that name.
_BASES = {**{family: family for family in FAMILIES}, "mistral": "llama"}
# Keys of the plain model that every reader of the folder needs, whatever its defaults are.
_KEYS = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
         "num_attention_heads", "num_key_value_heads", "hidden_act", "rms_norm_eps",
         "max_position_embeddings", "tie_word_embeddings", "attention_dropout",
         "initializer_range", "use_cache", "bos_token_id", "eos_token_id", "pad_token_id"]
_EXPERT_KEYS = ["num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob",
                "decoder_sparse_step", "mlp_only_layers"]


def kha_config(model: nn.Module) -> str:
    """config.json text of an inserted model. Raises KhaError where the format cannot say it."""
    config: Any = getattr(model, "config", None)
    family = str(getattr(config, "model_type", ""))
    name = type(model).__name__.removeprefix("FSDP")
    if family not in _BASES or not name.endswith("ForCausalLM"):
        fail("only causal language models are written as kha folders", where=name,
             expected="a ...ForCausalLM of " + ", ".join(FAMILIES),
             next="save the state dict: torch.save(model.state_dict(), file)")
    _check_computed(config)
    places = maps_of(model)
    written = {"architectures": ["KhaForCausalLM"], "model_type": "kha"}
    written.update({key: getattr(config, key, None) for key in _KEYS})
    written["head_dim"] = places[0].knock.head_dim
    written["attention_bias"] = family == "qwen2" or bool(getattr(config, "attention_bias", False))
    written["use_sliding_window"] = False
    written["sliding_window"] = None
    written["torch_dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    rotary = {key: value for key, value in _rotary(config.to_dict()).items() if value is not None}
    theta = written["rope_theta"] = rotary.get("rope_theta", 10000.0)
    scaling = {key: value for key, value in rotary.items() if key != "rope_theta"}
    written["rope_scaling"] = None if scaling.get("rope_type", "default") == "default" else scaling
    written["rope_parameters"] = {**scaling, "rope_theta": theta}
    if family == "qwen3_moe":
        written["num_experts"] = config.num_experts
        written.update({key: getattr(config, key) for key in _EXPERT_KEYS})
    written["kha"] = {"version": 1, "base": _BASES[family], "attention": "gqa",
                      **_knocks(places, int(config.num_hidden_layers))}
    written["auto_map"] = AUTO_MAP
    return json.dumps(written, indent=2) + "\n"


def _check_computed(config: Any) -> None:
    """What the programs compute; the rest would open and give other logits."""
    window = getattr(config, "sliding_window", None)
    context = config.max_position_embeddings
    types = getattr(config, "layer_types", None) or []
    windowed = config.model_type == "mistral" and window is not None and window < context
    if windowed or any(kind != "full_attention" for kind in types):
        fail("sliding windows have no form as a kha folder", where="sliding_window",
             expected=f"null, or at least max_position_embeddings {context}", found=str(window),
             next="set it to None where texts fit the context, or save the state dict")
    dense = sorted(getattr(config, "mlp_only_layers", None) or [])
    if dense != list(range(len(dense))) or getattr(config, "decoder_sparse_step", 1) != 1:
        fail("dense layers between layers of experts have no form as a kha folder",
             where="mlp_only_layers, decoder_sparse_step", expected="the first layers alone, step 1",
             found=f"{dense}, step {getattr(config, 'decoder_sparse_step', 1)}",
             next="save the state dict")
    if getattr(config, "mlp_bias", False):
        fail("biases in the feed-forward have no form as a kha folder", where="mlp_bias",
             expected="false", found="true", next="save the state dict")
    if config.hidden_act != "silu":
        fail("this activation has no form as a kha folder", where="hidden_act", expected="silu",
             found=str(config.hidden_act), next="save the state dict")


def _knocks(places: list[Any], layers: int) -> dict[str, Any]:
    """One setting for most layers and the layers that differ from it."""
    own: list[dict[str, str]] = [dict.fromkeys(SLOTS, "none") for _ in range(layers)]
    for place in places:
        own[place.layer][place.slot] = place.knock.kind
    most = dict(Counter(tuple(kinds.items()) for kinds in own).most_common(1)[0][0])
    differing = {str(layer): {slot: kind for slot, kind in kinds.items() if kind != most[slot]}
                 for layer, kinds in enumerate(own) if kinds != most}
    return {**most, "layers": differing} if differing else most


def read_description(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        description = json.loads(file.read_text())
    except FileNotFoundError:
        fail("no config.json here", where=str(file), expected="a model folder: config.json beside "
             "model.safetensors", next="name a step folder, for example RUN/checkpoints/latest")
    except ValueError as error:
        fail("this is not JSON", where=str(file), found=str(error))
    if not isinstance(description, dict):
        fail("this is not a JSON object", where=str(file), found=type(description).__name__)
    return description


def knocks_of(description: dict[str, Any],
              where: str) -> tuple[str, dict[int, dict[str, str]], dict[str, Any]]:
    """The plain model's type, the kinds of map by layer, and the plain model's own settings."""
    kha = dict(description["kha"])
    base = kha.pop("base", "qwen3")
    system = kha.pop("attention", "gqa")
    version, layers = kha.pop("version", 1), kha.pop("layers", {})
    most = {slot: kha.pop(slot, "none") for slot in SLOTS}
    if version != 1 or base not in FAMILIES or system != "gqa" or kha:
        own = ", ".join(f"{key} {value}" for key, value in kha.items())
        fail("this folder has parts that no class of transformers computes", where=where,
             expected="version 1, attention gqa on " + ", ".join(FAMILIES),
             found=f"version {version}, attention {system} on {base} {own}".strip(),
             next="AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)")
    knocks = {}
    for layer in range(int(description["num_hidden_layers"])):
        kinds = {**most, **layers.get(str(layer), {})}
        for kind in kinds.values():
            if kind != "none":
                check_kind(kind)
        knocks[layer] = {slot: kind for slot, kind in kinds.items() if kind != "none"}
    settings = {key: value for key, value in description.items() if key not in _NOT_SETTINGS}
    settings["rope_parameters"] = _rotary(description)
    return base, knocks, settings


_NOT_SETTINGS = ["kha", "auto_map", "architectures", "model_type", "transformers_version",
                 "rope_theta", "rope_scaling", "torch_dtype", "dtype"]


def _rotary(description: dict[str, Any]) -> dict[str, Any]:
    """Either spelling; what the newer one says wins. As the model file reads it, which stands alone
    in model folders."""
    given = {"rope_theta": float(description.get("rope_theta") or 10000.0),
             **(description.get("rope_scaling") or {}),
             **(description.get("rope_parameters") or {})}
    kind = given.pop("type", None)
    given.setdefault("rope_type", kind or "default")
    return given
