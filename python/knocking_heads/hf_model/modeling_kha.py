"""A kha model in transformers: forward, training and generation by plain torch.

Made for folders that say ``model_type: kha``: models with knocking-heads maps (arXiv 2510.23052)
that do not fold away, and models whose attention no class of transformers computes. Opens with

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)
"""

import copy
import inspect

import torch
from torch import nn
from transformers import __version__ as transformers_version
from transformers.cache_utils import DynamicCache, StaticLayer
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils import can_return_tuple

from .attention_kha import KhaGroupedQueryAttention
from .configuration_kha import KhaConfig
from .experts_kha import KhaMixture, KhaRouter
from .latent_attention_kha import KhaLatentAttention
from .layers_kha import KhaFeedForward, KhaMatrix, KhaRMSNorm
from .mixing_attention_kha import KhaCollaborativeAttention, KhaTalkingHeads
from .rotary_kha import KhaRotary
from .tied_attention_kha import KhaTiedAttention

ATTENTION = {
    "gqa": KhaGroupedQueryAttention,
    "gta": KhaTiedAttention,
    "gta_value": KhaTiedAttention,
    "gta_apart": KhaTiedAttention,
    "mla": KhaLatentAttention,
    "gla": KhaLatentAttention,
    "talking": KhaTalkingHeads,
    "collaborative": KhaCollaborativeAttention,
}

# transformers has renamed these between its versions.
CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
MASK_ARGUMENTS = set(inspect.signature(create_causal_mask).parameters)
MAJOR_VERSION = int(transformers_version.split(".")[0])
# Before it counted itself, a static cache wrote at the places that it was told.
CACHE_IS_TOLD_PLACES = "cache_kwargs" in inspect.signature(StaticLayer.update).parameters
TIED = {"lm_head.weight": "model.embed_tokens.weight"}


def told_places(embeds, cache, given):
    if given is None:
        seen = cache.get_seq_length()
        given = torch.arange(seen, seen + embeds.shape[1], device=embeds.device)
    return {"cache_kwargs": {"cache_position": given}}


def causal_mask(config, embeds, attention_mask, cache, position_ids):
    """What transformers makes of a mask for the attention function that runs."""
    seen = cache.get_seq_length() if cache is not None else 0
    given = {
        "inputs_embeds": embeds,
        "input_embeds": embeds,
        "attention_mask": attention_mask,
        "cache": cache,
        "past_key_values": cache,
        "position_ids": position_ids,
        "cache_position": torch.arange(seen, seen + embeds.shape[1], device=embeds.device),
    }
    return create_causal_mask(
        config=config, **{key: value for key, value in given.items() if key in MASK_ARGUMENTS}
    )


def text_positions(attention_mask, embeds, seen):
    """[B or 1, T]; padding counts nowhere, so a left-padded row begins at position 0."""
    if attention_mask is not None and attention_mask.dim() == 2:
        return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -embeds.shape[1] :]
    return torch.arange(seen, seen + embeds.shape[1], device=embeds.device).unsqueeze(0)


class KhaDecoderLayer(GradientCheckpointingLayer):
    """h = x + attention(norm x); y = h + feed-forward(norm h)"""

    def __init__(self, config, layer_idx):
        super().__init__()
        experts, width = config.experts, config.hidden_size
        self.self_attn = ATTENTION[config.attention_system](config, layer_idx)
        if experts is not None and layer_idx >= experts["first_dense"]:
            self.mlp = KhaMixture(width, experts)
        else:
            self.mlp = KhaFeedForward(width, config.intermediate_size)
        self.input_layernorm = KhaRMSNorm(width, config.rms_norm_eps)
        self.post_attention_layernorm = KhaRMSNorm(width, config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, **kwargs):
        attended, weights = self.self_attn(
            self.input_layernorm(hidden_states), position_embeddings, attention_mask, **kwargs
        )
        hidden_states = hidden_states + attended
        made = self.mlp(self.post_attention_layernorm(hidden_states))
        return hidden_states + made, weights


class KhaPreTrainedModel(PreTrainedModel):
    config_class = KhaConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["KhaDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values", "cache"]
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flash_attn_2 = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config, *inputs, **kwargs):
        # Narrower they would choose other experts. Not of a model without them: older versions of
        # transformers refuse a name that no module has.
        if config.experts is not None and config.experts["sigmoid"]:
            self._keep_in_fp32_modules_strict = ["e_score_correction_bias"]
        super().__init__(config, *inputs, **kwargs)

    def _init_weights(self, module):
        deviation = self.config.initializer_range
        if isinstance(module, KhaMatrix):
            module.start_again(deviation)
        elif isinstance(module, (nn.Linear, nn.Embedding, KhaRouter)):
            nn.init.normal_(module.weight, std=deviation)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, KhaRMSNorm):
            nn.init.ones_(module.weight)
        if getattr(module, "e_score_correction_bias", None) is not None:
            nn.init.zeros_(module.e_score_correction_bias)

    @property
    def maps_run_by(self):
        """"torch.ops.kha" where the maps run in the operators of the package knocking_heads,
        "torch" where they are composed of torch's own, None without maps."""
        used = {m.operators for m in self.modules() if hasattr(m, "operators")}
        return {True: "torch.ops.kha", False: "torch"}[used.pop()] if used else None


class KhaModel(KhaPreTrainedModel):
    """The decoder: ids or embeddings to the last layer's normed states."""

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        layers = range(config.num_hidden_layers)
        self.layers = nn.ModuleList([KhaDecoderLayer(config, layer) for layer in layers])
        self.norm = KhaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = KhaRotary(config)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value):
        self.embed_tokens = value

    def _mask(self, embeds, attention_mask, cache, position_ids):
        if isinstance(attention_mask, dict):  # of generate(), for each kind of layer
            return attention_mask["full_attention"]
        config = self.config
        if ATTENTION[config.attention_system].needs_scores:
            config = copy.copy(config)
            config._attn_implementation = "eager"
        return causal_mask(config, embeds, attention_mask, cache, position_ids)

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        cache=None,
        output_hidden_states=None,
        output_attentions=None,
        **kwargs,
    ):
        """ids [B, T] or embeddings [B, T, d]; ``past_key_values`` and ``cache`` are one thing."""
        given = kwargs.pop("cache_position", None)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give input_ids or inputs_embeds, one of them")
        embeds = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        cache = past_key_values if cache is None else cache
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
            if cache is not None:
                raise ValueError("a cache cannot be used where layers run again in backward")
            use_cache = False
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        if CACHE_IS_TOLD_PLACES and cache is not None:
            kwargs["cache_kwargs"] = told_places(embeds, cache, given)
        mask = self._mask(embeds, attention_mask, cache, position_ids)
        seen = cache.get_seq_length() if cache is not None else 0
        if position_ids is None:
            position_ids = text_positions(attention_mask, embeds, seen)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        places = self.rotary_emb(embeds, position_ids, seen)
        hidden, states, weights = embeds, [], []
        for layer in self.layers:
            states.append(hidden)
            hidden, own = layer(
                hidden,
                position_embeddings=places,
                attention_mask=mask,
                position_ids=position_ids,
                cache=cache,
                **kwargs,
            )
            weights.append(own)
        hidden = self.norm(hidden)
        return BaseModelOutputWithPast(
            last_hidden_state=hidden,
            hidden_states=(*states, hidden) if output_hidden_states else None,
            attentions=tuple(weights) if output_attentions else None,
            **{CACHE: cache if use_cache else None},
        )


class KhaForCausalLM(KhaPreTrainedModel, GenerationMixin):
    """The decoder and its output matrix, which may be the embedding."""

    _tied_weights_keys = TIED if MAJOR_VERSION >= 5 else list(TIED)
    _tp_plan = {"lm_head": "colwise_gather_output" if MAJOR_VERSION >= 5 else "colwise_rep"}
    _pp_plan = {"lm_head": (["hidden_states"], ["logits"])}

    def __init__(self, config):
        super().__init__(config)
        self.model = KhaModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        logits_to_keep=0,
        cache=None,
        **kwargs,
    ):
        """Logits [B, T, vocabulary], of the last ``logits_to_keep`` positions or of those named;
        with ``labels`` (-100: none) the mean loss of the next ids."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            cache=cache,
            **kwargs,
        )
        hidden = outputs.last_hidden_state
        if isinstance(logits_to_keep, int):
            logits_to_keep = slice(-logits_to_keep, None) if logits_to_keep else slice(None)
        logits = self.lm_head(hidden[:, logits_to_keep, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            **{CACHE: getattr(outputs, CACHE)},
        )


__all__ = ["KhaForCausalLM", "KhaModel", "KhaPreTrainedModel"]
