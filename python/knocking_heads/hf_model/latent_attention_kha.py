"""Latent attention: MLA (arXiv 2405.04434) with one latent head, GLA (arXiv 2505.21487) with more.

x -> kv_a -> norm -> latents, which alone are cached, and one rotated key. Keys and values are
products of the latents (kv_b, head by head: D rows of the key, then D_v of the value), each
followed by its map. Of a whole text they are formed. A step with a cache forms none of them: its
queries and its sums go through the latents instead (arXiv 2405.04434, section 2.1.3).
"""

import torch
from torch import nn

from .attention_kha import KhaAttention, scores_by_key_head, sums_by_key_head, weights_of
from .layers_kha import KhaLinearMap, KhaRMSNorm, add_map, knocked, wide
from .rotary_kha import logit_scale


class KhaLatentNorm(KhaRMSNorm):
    """An RMSNorm of each latent head, [..., heads, width], with a gain of its own."""

    def __init__(self, heads, width, eps):
        super().__init__(heads * width, eps)

    def forward(self, x):
        values = x.to(wide(x.dtype))
        normed = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight.view(x.shape[-2:]) * normed.to(x.dtype)


def holds_its_matrix(module, kinds, x):
    """Whether the products of a module are those of its weight as it stands: no quantised one, no
    adapter beside it, no hook, nothing that lies elsewhere until it is called."""
    weight = module.weight
    return (
        type(module) in kinds
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and "forward" not in vars(module)
        and type(weight) is nn.Parameter
        and (weight.dtype, weight.device) == (x.dtype, x.device)
    )


class KhaLatentAttention(KhaAttention):
    def build(self, config):
        width, bias, sizes = config.hidden_size, config.attention_bias, config.kha
        self.turned_width = sizes["rope_head_dim"]
        self.value_width = sizes.get("value_head_dim", 0) or self.head_dim
        self.latent_heads = sizes.get("latent_heads", 1)
        self.latent_width = sizes["kv_latent"]
        self.scaling = (self.head_dim + self.turned_width) ** -0.5
        self.scaling *= logit_scale(config.rope_parameters)
        self._build_queries(config, sizes.get("query_latent", 0))
        latents = self.latent_heads * self.latent_width
        self.kv_a_proj_with_mqa = self.linear(width, latents + self.turned_width, bias)
        self.kv_a_layernorm = KhaLatentNorm(
            self.latent_heads, self.latent_width, config.latent_eps
        )
        rows = self.heads * (self.head_dim + self.value_width)
        self.kv_b_proj = self.linear(self.latent_width, rows)
        self.o_proj = self.linear(self.heads * self.value_width, width, bias)
        add_map(self, config, self.layer_idx, "q", self.head_dim)
        add_map(self, config, self.layer_idx, "k", self.head_dim)
        add_map(self, config, self.layer_idx, "v", self.value_width)

    def _build_queries(self, config, latent):
        rows = self.heads * (self.head_dim + self.turned_width)
        if not latent:
            self.q_proj = self.linear(config.hidden_size, rows)
            return
        self.q_a_proj = self.linear(config.hidden_size, latent, config.attention_bias)
        self.q_a_layernorm = KhaRMSNorm(latent, config.latent_eps)
        self.q_b_proj = self.linear(latent, rows)

    def queries(self, x):
        if hasattr(self, "q_proj"):
            return self.q_proj(x)
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def project(self, x, position_embeddings):
        query = self.split(self.queries(x), self.head_dim + self.turned_width)
        plain, turned = query.split((self.head_dim, self.turned_width), dim=-1)
        turned = self.turned(turned, position_embeddings)
        query = torch.cat((knocked(self, "q", plain), turned), dim=-1)
        kept = self.kv_a_proj_with_mqa(x)
        latents = self.latent_heads * self.latent_width
        latent = self.split(kept[..., :latents], self.latent_width)
        key = self.turned(kept[..., latents:].unsqueeze(2), position_embeddings)
        return query, (key, self.kv_a_layernorm(latent))

    def products(self, latent):
        """[B, h_c, S, d_c] -> [B, S, H, D + D_v]"""
        if self.latent_heads == 1:
            made = self.kv_b_proj(latent).transpose(1, 2)
        else:
            weight = self.kv_b_proj.weight.view(self.latent_heads, -1, self.latent_width)
            made = (latent @ weight.transpose(1, 2)).transpose(1, 2)
        return made.reshape(*made.shape[:2], -1, self.head_dim + self.value_width)

    def form(self, turned, latent):
        plain, value = self.products(latent).split((self.head_dim, self.value_width), dim=-1)
        plain = knocked(self, "k", plain).transpose(1, 2)
        value = knocked(self, "v", value).transpose(1, 2)
        turned = turned.expand(-1, plain.shape[1], -1, -1)
        return torch.cat((plain, turned), dim=-1), value

    def over_cached(self, query, kept, mask, **kwargs):
        if self.goes_through_latents(query, kept[1], mask):
            return self.through_latents(query, *kept, mask)
        return self.over(query, kept, mask, **kwargs)

    def goes_through_latents(self, query, latent, mask):
        """Whether it is possible, and fewer products than forming keys and values of S positions
        for T queries. Fused kernels know no heads as wide as a latent; their masks are their own,
        and sdpa's mask of a whole text may be none."""
        if self.config._attn_implementation not in (None, "eager", "sdpa") or self.training:
            return False
        queries, positions = query.shape[2], latent.shape[2]
        if mask is None and queries > 1:
            return False
        matrix = self.latent_width * (self.head_dim + self.value_width)
        wider = 2 * self.latent_width - self.head_dim - self.value_width
        if queries * (positions * wider + matrix) >= positions * matrix:
            return False
        key_map = getattr(self, "knock_k", None)
        return holds_its_matrix(self.kv_b_proj, (nn.Linear,), latent) and (
            key_map is None or holds_its_matrix(key_map, (KhaLinearMap,), latent)
        )

    def through_latents(self, query, turned, latent, mask):
        """q . M W c = (W^T M^T q) . c, and the sum over values is W of the sum over latents. The
        scores are a sum of two, made in float32: a narrow type would round each before its scale."""
        matrix = self.kv_b_proj.weight.view(-1, self.head_dim + self.value_width, self.latent_width)
        of_keys, of_values = matrix.split((self.head_dim, self.value_width), dim=1)
        plain, rotated = query.split((self.head_dim, self.turned_width), dim=-1)
        if hasattr(self, "knock_k"):
            plain = plain @ self.knock_k.weight
        own = wide(latent.dtype)
        scores = scores_by_key_head((plain @ of_keys).to(own), latent.to(own))
        scores = scores + scores_by_key_head(rotated.to(own), turned.to(own))
        weights = weights_of(scores, mask, self.scaling).to(latent.dtype)
        sums = sums_by_key_head(weights, latent)  # [B, T, H, d_c]
        value = torch.einsum("bthc,hdc->bthd", sums, of_values)
        return knocked(self, "v", value), weights
