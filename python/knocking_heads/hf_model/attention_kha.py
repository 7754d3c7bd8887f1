"""What the attention systems of a kha model share, and grouped-query attention.

A layer's cache is the pair that transformers keeps, keys and values [B, heads, T, width]; what a
system puts there is its own (the paper's compressed state, not what is formed from it).
"""

import contextlib

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .layers_kha import KhaRMSNorm, add_map, knocked, wide
from .rotary_kha import rotate


def weights_of(scores, mask, scaling):
    """softmax(scores * scaling + mask) in float32; a mask is bool (true: seen) or added."""
    scores = scores.to(wide(scores.dtype)) * scaling
    if mask is not None:
        mask = mask[..., : scores.shape[-1]]
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + mask
    return scores.softmax(-1)


def by_key_head(x, heads):
    """[B, H, T, width] -> [B, heads, H/heads * T, width]: what shares a KV head, as rows."""
    return x.reshape(x.shape[0], heads, -1, x.shape[-1])


def scores_by_key_head(query, key):
    scores = by_key_head(query, key.shape[1]) @ key.transpose(2, 3)
    return scores.view(*query.shape[:3], key.shape[2])


def sums_by_key_head(weights, value):
    """[B, H, T, S] over [B, heads, S, D_v] -> [B, T, H, D_v]"""
    sums = by_key_head(weights, value.shape[1]) @ value
    return sums.view(*weights.shape[:3], value.shape[3]).transpose(1, 2)


def eager_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Attention as it is written: query [B, H, T, D], key and value [B, H_kv, S, ...]."""
    weights = weights_of(scores_by_key_head(query, key), attention_mask, scaling).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return sums_by_key_head(weights, value).contiguous(), weights


def attention_function(config):
    name = config._attn_implementation
    if name is None or name == "eager":
        return eager_attention
    if hasattr(ALL_ATTENTION_FUNCTIONS, "get_interface"):
        return ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention)
    return ALL_ATTENTION_FUNCTIONS[name]


def kernels_of_these_threads(config, device):
    """Of torch 2.11 a CPU kernel of flex_attention that was compiled for one thread is found in the
    cache of kernels by processes of more, and writes beyond its buffers there, which ends them. As
    a setting the number of threads is part of what kernels are found by."""
    flex = config._attn_implementation == "flex_attention" and device.type == "cpu"
    if not flex or torch.compiler.is_compiling():
        return contextlib.nullcontext()
    from torch._inductor import config as settings

    if settings.cpp.threads > 0:  # the user's own
        return contextlib.nullcontext()
    return settings.patch({"cpp.threads": torch.get_num_threads()})


def of_one_width(query, key, value):
    """Fast attention wants keys and values of one width: channels of zeros change no sum."""
    widest = max(key.shape[-1], value.shape[-1])
    return [nn.functional.pad(each, (0, widest - each.shape[-1])) for each in (query, key, value)]


class KhaAttention(nn.Module):
    """What all systems share. One of them says in ``project`` what a position's query is and what
    is kept of it, in ``form`` what keys and values are made of what is kept."""

    needs_scores = False  # true: none of transformers' attention functions computes it

    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.interleaved = config.interleaved
        self.head_dim = config.head_dim
        self.heads = config.num_attention_heads
        self.key_heads = config.num_key_value_heads
        self.num_key_value_groups = self.heads // self.key_heads
        self.scaling = self.head_dim**-0.5
        self.attention_dropout = config.attention_dropout
        self.is_causal = True
        self.build(config)

    def linear(self, inputs, outputs, bias=False):
        return nn.Linear(inputs, outputs, bias=bias)

    def turned(self, x, position_embeddings):
        return rotate(x, position_embeddings, self.interleaved)

    def split(self, x, width):
        """[B, T, heads * width] -> [B, T, heads, width], of however many heads are here."""
        return x.view(*x.shape[:-1], -1, width)

    def forward(
        self,
        hidden_states,
        position_embeddings,
        attention_mask=None,
        cache=None,
        cache_kwargs=None,
        **kwargs,
    ):
        query, kept = self.project(hidden_states, position_embeddings)
        kept = [each.transpose(1, 2) for each in kept]
        if cache is not None:
            kept = self.cached(kept, cache, cache_kwargs or {})
        over = self.over if cache is None else self.over_cached
        made, weights = over(query.transpose(1, 2), kept, attention_mask, **kwargs)
        return self.o_proj(self.gathered(made)), weights

    def over(self, query, kept, mask, **kwargs):
        """Attention of query [B, H, T, ...] over what is kept of all positions, each [B, heads, S,
        width] -> [B, T, H, D_v] and the weights."""
        return self.attend(query, *self.form(*kept), mask, **kwargs)

    def over_cached(self, query, kept, mask, **kwargs):
        return self.over(query, kept, mask, **kwargs)

    def cached(self, kept, cache, how):
        """What is kept of all positions. A cache has one number of heads for its two tensors:
        where theirs differ, heads lie side by side in it."""
        counts = [each.shape[1] for each in kept]
        if counts[0] == counts[1]:
            return cache.update(*kept, self.layer_idx, **how)
        rows = [each.transpose(1, 2).flatten(2).unsqueeze(1) for each in kept]
        found = cache.update(*rows, self.layer_idx, **how)
        return [x[:, 0].unflatten(-1, (n, -1)).transpose(1, 2) for n, x in zip(counts, found)]

    def form(self, key, value):
        return key, value

    def attend(self, query, key, value, mask, **kwargs):
        width, function = value.shape[-1], attention_function(self.config)
        if function is not eager_attention:
            query, key, value = of_one_width(query, key, value)
        dropout = self.attention_dropout if self.training else 0.0
        with kernels_of_these_threads(self.config, query.device):
            made, weights = function(
                self, query, key, value, mask, dropout=dropout, scaling=self.scaling, **kwargs
            )
        return made[..., :width], weights

    def gathered(self, heads):
        return heads.reshape(*heads.shape[:2], -1)


class KhaGroupedQueryAttention(KhaAttention):
    """x -> projection -> map -> norm and rotation of q and k -> attention (arXiv 2305.13245)."""

    def build(self, config):
        width, bias = config.hidden_size, config.projection_bias
        self.q_proj = self.linear(width, self.heads * self.head_dim, bias)
        self.k_proj = self.linear(width, self.key_heads * self.head_dim, bias)
        self.v_proj = self.linear(width, self.key_heads * self.head_dim, bias)
        self.o_proj = self.linear(self.heads * self.head_dim, width, config.output_bias)
        for slot in "qkv":
            add_map(self, config, self.layer_idx, slot, self.head_dim)
        if config.qk_norm:
            self.q_norm = KhaRMSNorm(self.head_dim, config.rms_norm_eps)
            self.k_norm = KhaRMSNorm(self.head_dim, config.rms_norm_eps)

    def project(self, x, position_embeddings):
        query = knocked(self, "q", self.split(self.q_proj(x), self.head_dim))
        key = knocked(self, "k", self.split(self.k_proj(x), self.head_dim))
        value = knocked(self, "v", self.split(self.v_proj(x), self.head_dim))
        if self.config.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        turned = [self.turned(each, position_embeddings) for each in (query, key)]
        return turned[0], (turned[1], value)

