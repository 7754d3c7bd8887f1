"""Grouped-tied attention (arXiv 2505.21487, section 3.3.1).

x -> kv_proj -> state: the value, and in its first D - d_R channels the plain half of the key;
x -> k_rope_proj -> the rotated half of the key, one head for all.

gta: the map on v acts on the state before it is cached. gta_value: the state stays plain, the map
on v acts on the sums over states. gta_apart: the map M on k too leaves it plain and stands on the
queries, q . (M k) = (M^T q) . k; no norms.
"""

import torch

from .attention_kha import KhaAttention
from .layers_kha import KhaRMSNorm, add_map, knocked


class KhaTiedAttention(KhaAttention):
    def build(self, config):
        width, bias = config.hidden_size, config.attention_bias
        self.turned_width = config.kha["rope_head_dim"]
        self.plain_width = self.head_dim - self.turned_width
        self.state_stays_plain = config.attention_system != "gta"
        self.q_proj = self.linear(width, self.heads * self.head_dim, bias)
        self.kv_proj = self.linear(width, self.key_heads * self.head_dim, bias)
        self.k_rope_proj = self.linear(width, self.turned_width)
        self.o_proj = self.linear(self.heads * self.head_dim, width, bias)
        add_map(self, config, self.layer_idx, "q", self.head_dim)
        add_map(self, config, self.layer_idx, "k", self.plain_width)
        add_map(self, config, self.layer_idx, "v", self.head_dim)
        if config.attention_system != "gta_apart":
            for name in ("q_norm", "k_norm"):
                setattr(self, name, KhaRMSNorm(self.plain_width, config.rms_norm_eps))
            for name in ("q_rope_norm", "k_rope_norm"):
                setattr(self, name, KhaRMSNorm(self.turned_width, config.rms_norm_eps))

    def normed(self, name, x):
        norm = getattr(self, name, None)
        return x if norm is None else norm(x)

    def project(self, x, position_embeddings):
        query = knocked(self, "q", self.split(self.q_proj(x), self.head_dim))
        plain, turned = query.split((self.plain_width, self.turned_width), dim=-1)
        plain = self.normed("q_norm", plain)
        if hasattr(self, "knock_k"):
            plain = plain @ self.knock_k.weight
        turned = self.turned(self.normed("q_rope_norm", turned), position_embeddings)
        state = self.split(self.kv_proj(x), self.head_dim)
        if not self.state_stays_plain:
            state = knocked(self, "v", state)
        key = self.normed("k_rope_norm", self.k_rope_proj(x).unsqueeze(2))
        key = self.turned(key, position_embeddings)
        return torch.cat((plain, turned), dim=-1), (key, state)

    def form(self, turned, state):
        """The plain half's norm depends on the state alone: it is taken when the cache is read."""
        plain = self.normed("k_norm", state[..., : self.plain_width])
        turned = turned.expand(-1, state.shape[1], -1, -1)
        return torch.cat((plain, turned), dim=-1), state

    def gathered(self, heads):
        if self.state_stays_plain:
            heads = knocked(self, "v", heads)
        return super().gathered(heads)
