"""config.json of a kha model, for transformers.

The keys are those of Qwen3 (with experts of Qwen3-MoE or Glm4-MoE) and one object of its own,
``kha``: the type of the plain model below the maps (``base``), the attention system and its sizes,
and the kind of map on queries, keys and values of all layers, with exceptions by layer.
"""

import copy

from transformers import PretrainedConfig
from transformers import __version__ as transformers_version

# Of each attention system the kinds of map that are legal on q, k and v, besides none.
EVERY, LINEAR, NONE = ("linear", "mlp", "gate"), ("linear",), ()
LEGAL = {
    "gqa": {"q": EVERY, "k": EVERY, "v": EVERY},
    "gta": {"q": EVERY, "k": NONE, "v": EVERY},
    "gta_value": {"q": LINEAR, "k": NONE, "v": LINEAR},
    "gta_apart": {"q": LINEAR, "k": LINEAR, "v": LINEAR},
    "mla": {"q": LINEAR, "k": LINEAR, "v": LINEAR},
    "gla": {"q": LINEAR, "k": LINEAR, "v": LINEAR},
    "talking": {"q": EVERY, "k": EVERY, "v": EVERY},
    "collaborative": {"q": NONE, "k": NONE, "v": EVERY},
}
# Below these the maps stand behind a projection without a norm.
WITHOUT_QK_NORM = ("llama", "mistral", "qwen2")
AUTO_MAP = {
    "AutoConfig": "configuration_kha.KhaConfig",
    "AutoModel": "modeling_kha.KhaModel",
    "AutoModelForCausalLM": "modeling_kha.KhaForCausalLM",
}
# Written whatever their value is: to other programs an absent key means another default.
ALWAYS_WRITTEN = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "max_position_embeddings",
    "tie_word_embeddings", "attention_bias", "initializer_range", "use_cache", "rope_parameters",
    "kha", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id",
)  # fmt: skip


class KhaConfig(PretrainedConfig):
    """A model with knocking-heads maps, or with an attention that no class of transformers has.

    Rotary settings are kept in ``rope_parameters``; ``rope_theta`` and ``rope_scaling``, the older
    spelling, are read too. Raises ValueError for what the model does not compute.
    """

    model_type = "kha"
    keys_to_ignore_at_inference = ["past_key_values", "cache"]

    def __init__(
        self,
        vocab_size=257,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=None,
        head_dim=None,
        hidden_act="silu",
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        initializer_range=0.02,
        attention_bias=False,
        attention_dropout=0.0,
        use_cache=True,
        tie_word_embeddings=False,
        rope_parameters=None,
        rope_theta=10000.0,
        rope_scaling=None,
        kha=None,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.head_dim = head_dim or hidden_size // num_attention_heads
        self.hidden_act = hidden_act
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.attention_bias = attention_bias
        self.attention_dropout = attention_dropout
        self.use_cache = use_cache
        self.rope_parameters = one_spelling(rope_theta, rope_scaling, rope_parameters)
        self.kha = copy.deepcopy(kha or {})
        kwargs.setdefault("auto_map", dict(AUTO_MAP))
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
        self.check()

    def check(self):
        if self.kha.get("version", 1) != 1:
            raise ValueError(
                f"this model was written by a newer kha: version {self.kha['version']}, expected 1;"
                " take the model file of that version"
            )
        system = self.attention_system
        if system not in LEGAL:
            raise ValueError(f"unknown attention {system!r}; known: {', '.join(LEGAL)}")
        for layer in range(self.num_hidden_layers):
            for slot, kinds in LEGAL[system].items():
                kind = self.knock(layer, slot)
                if kind not in ("none", *kinds):
                    raise ValueError(
                        f"a map {kind!r} may not stand on {slot} of {system} (layer {layer}); "
                        f"legal: {', '.join(('none', *kinds))}"
                    )
        if self.hidden_act != "silu":
            raise ValueError(f"hidden_act {self.hidden_act!r}: only 'silu' is computed")

    def knock(self, layer, slot):
        """The kind of map on slot "q", "k" or "v" of a layer."""
        own = self.kha.get("layers", {}).get(str(layer), {})
        return own.get(slot, self.kha.get(slot, "none"))

    @property
    def base(self):
        return self.kha.get("base", "qwen3")

    @property
    def attention_system(self):
        return self.kha.get("attention", "gqa")

    @property
    def qk_norm(self):
        return self.base not in WITHOUT_QK_NORM and getattr(self, "use_qk_norm", True)

    @property
    def projection_bias(self):
        """Biases on q, k and v."""
        return self.attention_bias or self.base == "qwen2"

    @property
    def output_bias(self):
        return self.attention_bias and self.kha.get("output_bias", self.base != "qwen2")

    @property
    def interleaved(self):
        return self.kha.get("rotary_layout", "half_split") == "interleaved"

    @property
    def rotary_width(self):
        """Channels that the rotary embedding turns."""
        return self.kha.get("rope_head_dim", 0) or self.head_dim

    @property
    def latent_eps(self):
        return self.kha.get("latent_norm_eps", 0) or self.rms_norm_eps

    @property
    def experts(self):
        """The mixture of experts as a dictionary, or None in a dense model."""
        sigmoid = getattr(self, "n_routed_experts", None)
        softmax = getattr(self, "num_experts", None) or getattr(self, "num_local_experts", None)
        if not (sigmoid or softmax):
            return None
        behind = len(getattr(self, "mlp_only_layers", None) or ())
        return {
            "count": sigmoid or softmax,
            "active": self.num_experts_per_tok,
            "width": self.moe_intermediate_size,
            "shared": getattr(self, "n_shared_experts", None) or 0,
            "first_dense": getattr(self, "first_k_dense_replace", None) or behind,
            "sigmoid": bool(sigmoid),
            "normalise": getattr(self, "norm_topk_prob", bool(sigmoid)),
            "scaling": getattr(self, "routed_scaling_factor", None) or 1.0,
            "groups": getattr(self, "n_group", None) or 1,
            "open_groups": getattr(self, "topk_group", None) or 1,
        }

    @property
    def base_model_tp_plan(self):
        """Heads over devices. Maps and norms act inside a head, so every device has them whole."""
        if self.attention_system in ("gla", "talking", "collaborative"):
            return None  # their heads are not apart
        shared = {}
        if int(transformers_version.split(".")[0]) >= 5:
            parts = ("q_norm", "k_norm", "q_rope_norm", "knock_*", "knock_*.*")
            shared = {f"layers.*.self_attn.{part}": "replicated_with_grad_allreduce" for part in parts}
        split = ("q_proj", "k_proj", "v_proj", "q_b_proj", "kv_b_proj", "kv_proj")
        return {
            **{f"layers.*.self_attn.{name}": "colwise" for name in split},
            **shared,
            "layers.*.self_attn.o_proj": "rowwise",
            "layers.*.mlp.gate_proj": "colwise",
            "layers.*.mlp.up_proj": "colwise",
            "layers.*.mlp.down_proj": "rowwise",
        }

    base_model_pp_plan = {
        "embed_tokens": (["input_ids"], ["inputs_embeds"]),
        "layers": (["hidden_states", "attention_mask"], ["hidden_states"]),
        "norm": (["hidden_states"], ["hidden_states"]),
    }

    def to_diff_dict(self):
        written = super().to_diff_dict()
        whole = self.to_dict()
        written.update({key: whole[key] for key in ALWAYS_WRITTEN if key in whole})
        return written


def one_spelling(theta, scaling, parameters):
    """``rope_parameters`` from either spelling; what it holds wins over the older keys."""
    merged = {"rope_theta": float(theta), **(scaling or {}), **(parameters or {})}
    kind = merged.pop("type", None)
    merged.setdefault("rope_type", kind or "default")
    return merged
