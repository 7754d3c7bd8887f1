"""Attention that needs the scores themselves: talking heads and collaborative heads.

Neither is in any fused attention, so both are computed here whatever ``attn_implementation`` says.
"""

import torch

from .attention_kha import (
    KhaAttention,
    KhaGroupedQueryAttention,
    scores_by_key_head,
    sums_by_key_head,
    weights_of,
)
from .layers_kha import KhaMatrix, add_map, knocked


def mixed(matrix, x):
    """Row a of the matrix: what head a takes of each head of x, [B, H, T, S]."""
    return torch.einsum("ah,bhts->bats", matrix.weight, x)


class KhaTalkingHeads(KhaGroupedQueryAttention):
    """Heads mixed in their logits before the mask and in their weights (arXiv 2003.02436)."""

    needs_scores = True

    def build(self, config):
        super().build(config)
        self.logit_mix = KhaMatrix(self.heads, self.heads, "identity")
        self.weight_mix = KhaMatrix(self.heads, self.heads, "identity")

    def attend(self, query, key, value, mask, **kwargs):
        scores = mixed(self.logit_mix, scores_by_key_head(query, key))
        weights = weights_of(scores, mask, self.scaling).to(value.dtype)
        weights = mixed(self.weight_mix, weights)
        return sums_by_key_head(weights, value), weights


class KhaCollaborativeAttention(KhaAttention):
    """Queries and keys of one width D~ for all heads, whose channels each head weighs for itself
    (arXiv 2006.16362): logit_i = (q_i . k + content_bias_i . x) / sqrt(D). The cached key carries
    the second term behind its channels."""

    needs_scores = True

    def build(self, config):
        width, bias = config.hidden_size, config.attention_bias
        self.shared = config.kha["shared_key_width"]
        self.q_proj = self.linear(width, self.shared)
        self.k_proj = self.linear(width, self.shared)
        start = "mixing" if self.shared % self.heads else "blocks"
        self.mixing = KhaMatrix(self.shared, self.heads, start)
        if config.kha.get("content_bias"):
            self.content_bias = KhaMatrix(width, self.heads, "zeros")
        self.v_proj = self.linear(width, self.heads * self.head_dim, bias)
        self.o_proj = self.linear(self.heads * self.head_dim, width, bias)
        add_map(self, config, self.layer_idx, "v", self.head_dim)

    def blocks_turned(self, x, position_embeddings):
        """Blocks of D channels turn as MHA's heads do; what is behind the last whole one stays."""
        whole = self.shared // self.head_dim * self.head_dim
        blocks = x[..., :whole].reshape(*x.shape[:2], -1, self.head_dim)
        turned = self.turned(blocks, position_embeddings).view(*x.shape[:3], whole)
        return torch.cat((turned, x[..., whole:]), dim=-1)

    def project(self, x, position_embeddings):
        query = self.q_proj(x).unsqueeze(2) * self.mixing.weight
        key = self.blocks_turned(self.k_proj(x).unsqueeze(2), position_embeddings)
        if hasattr(self, "content_bias"):
            key = torch.cat((key, self.content_bias(x).unsqueeze(2)), dim=-1)
        value = knocked(self, "v", self.split(self.v_proj(x), self.head_dim))
        return self.blocks_turned(query, position_embeddings), (key, value)

    def attend(self, query, key, value, mask, **kwargs):
        key, term = key[..., : self.shared], key[..., self.shared :]
        scores = scores_by_key_head(query, key)
        if term.shape[-1]:
            scores = scores + term.permute(0, 3, 1, 2)  # [B, H, 1, S]
        weights = weights_of(scores, mask, self.scaling).to(value.dtype)
        return sums_by_key_head(weights, value), weights
