"""Models of other attention than Qwen3's, as torch users write them: the peers of a training step.

Each is transformers' Qwen3 with its attention exchanged, so that embedding, norms, feed-forward,
head and loss are transformers' own. A straight composition uses torch's operators in their obvious
order; where one choice is faster in torch (values padded so that the fused attention takes them), it
has that choice.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM


def linear(outputs, inputs, bias=False):
    return nn.Linear(inputs, outputs, bias=bias)


def norm(x, gain, eps):
    return F.rms_norm(x, (x.size(-1),), gain, eps)


class Rotary(nn.Module):
    """cos and sin [T, width], half-split."""

    def __init__(self, positions, width, theta):
        super().__init__()
        angle = torch.outer(torch.arange(positions).double(),
                            theta ** (-torch.arange(0, width, 2).double() / width))
        both = torch.cat([angle, angle], -1)
        self.register_buffer("cos", both.cos(), persistent=False)
        self.register_buffer("sin", both.sin(), persistent=False)

    def table(self, x):
        length = x.size(1)
        return self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)

    def forward(self, x):
        """x [B, T, heads, width]"""
        cos, sin = (each[:, None] for each in self.table(x))
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin


def causal(q, k, v):
    """[B, T, heads, width] each; values as wide as keys or narrower."""
    width = v.size(-1)
    if width < q.size(-1):
        v = F.pad(v, (0, q.size(-1) - width))
    y = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True,
                                       enable_gqa=q.size(2) != k.size(2))
    return y.transpose(1, 2)[..., :width]


class Straight(nn.Module):
    """What the straight compositions share: sizes, the rotary table, the output projection."""

    def __init__(self, c, parts):
        super().__init__()
        self.heads, self.kv_heads, self.width = (
            c.num_attention_heads, c.num_key_value_heads, c.head_dim)
        self.rotated, self.eps = parts.get("rope_head_dim", c.head_dim), c.rms_norm_eps
        self.rotary = Rotary(c.max_position_embeddings, self.rotated,
                             c.rope_parameters["rope_theta"])
        self.o_proj = linear(c.hidden_size, self.heads * self.width)

    def gain(self, *shape):
        weight = nn.Module()
        weight.weight = nn.Parameter(torch.ones(shape))
        return weight

    def forward(self, hidden_states, **_):
        return self.o_proj(self.attend(hidden_states).flatten(2)), None


class Gta(Straight):
    def __init__(self, c, parts):
        super().__init__(c, parts)
        self.plain = self.width - self.rotated
        self.q_proj = linear(self.heads * self.width, c.hidden_size)
        self.kv_proj = linear(self.kv_heads * self.width, c.hidden_size)
        self.k_rope_proj = linear(self.rotated, c.hidden_size)
        self.q_norm, self.k_norm = self.gain(self.plain), self.gain(self.plain)
        self.q_rope_norm, self.k_rope_norm = self.gain(self.rotated), self.gain(self.rotated)

    def attend(self, x):
        q = self.q_proj(x).unflatten(2, (self.heads, self.width))
        state = self.kv_proj(x).unflatten(2, (self.kv_heads, self.width))
        q_plain, q_turned = q.split([self.plain, self.rotated], -1)
        q = torch.cat([norm(q_plain, self.q_norm.weight, self.eps),
                       self.rotary(norm(q_turned, self.q_rope_norm.weight, self.eps))], -1)
        turned = self.rotary(norm(self.k_rope_proj(x), self.k_rope_norm.weight, self.eps)[:, :, None])
        k = torch.cat([norm(state[..., : self.plain], self.k_norm.weight, self.eps),
                       turned.expand(-1, -1, self.kv_heads, -1)], -1)
        return causal(q, k, state)


class Latent(Straight):
    """MLA with one latent head, GLA with more."""

    def __init__(self, c, parts):
        super().__init__(c, parts)
        self.latents, self.latent = parts["latent_heads"], parts["kv_latent"]
        query, rows = parts.get("query_latent", 0), self.heads * (self.width + self.rotated)
        if query:
            self.q_a_proj, self.q_a_layernorm = linear(query, c.hidden_size), self.gain(query)
            self.q_b_proj = linear(rows, query)
        else:
            self.q_a_proj, self.q_proj = None, linear(rows, c.hidden_size)
        wide = self.latents * self.latent
        self.kv_a_proj_with_mqa = linear(wide + self.rotated, c.hidden_size)
        self.kv_a_layernorm = self.gain(wide)
        self.kv_b_proj = linear(self.heads * 2 * self.width, self.latent)

    def queries(self, x):
        if self.q_a_proj is None:
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(norm(self.q_a_proj(x), self.q_a_layernorm.weight, self.eps))
        plain, turned = q.unflatten(2, (self.heads, -1)).split([self.width, self.rotated], -1)
        return torch.cat([plain, self.rotary(turned)], -1)

    def keys_and_values(self, latents):
        """latents: [B, T, h_c, d_c] -> [B, T, H, 2 D]"""
        if self.latents == 1:
            return self.kv_b_proj(latents[:, :, 0]).unflatten(2, (self.heads, -1))
        by_head = self.kv_b_proj.weight.view(self.latents, -1, self.latent)
        return torch.einsum("bthc,hoc->btho", latents, by_head).unflatten(
            3, (self.heads // self.latents, -1)).flatten(2, 3)

    def attend(self, x):
        kv = self.kv_a_proj_with_mqa(x)
        latents, turned = kv.split([self.latents * self.latent, self.rotated], -1)
        gain = self.kv_a_layernorm.weight.view(self.latents, self.latent)
        latents = F.rms_norm(latents.unflatten(2, (self.latents, -1)), (self.latent,), None,
                             self.eps) * gain
        plain, v = self.keys_and_values(latents).chunk(2, -1)
        k = torch.cat([plain, self.rotary(turned[:, :, None]).expand(-1, -1, self.heads, -1)], -1)
        return causal(self.queries(x), k, v)


def softmax_of_the_seen(logits):
    """Causal softmax of [B, heads, T, T] in float32."""
    length = logits.size(-1)
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return logits.float().masked_fill(later, -torch.inf).softmax(-1).to(logits.dtype)


class Talking(Straight):
    """Grouped queries whose heads are mixed before the mask and behind the softmax."""

    def __init__(self, c, parts):
        super().__init__(c, parts)
        self.q_proj = linear(self.heads * self.width, c.hidden_size)
        self.k_proj, self.v_proj = (linear(self.kv_heads * self.width, c.hidden_size) for _ in "kv")
        self.q_norm, self.k_norm = self.gain(self.width), self.gain(self.width)
        self.logit_mix, self.weight_mix = (self.gain(self.heads, self.heads) for _ in range(2))

    def attend(self, x):
        q, k, v = (project(x).unflatten(2, (-1, self.width))
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        q = self.rotary(norm(q, self.q_norm.weight, self.eps))
        k = self.rotary(norm(k, self.k_norm.weight, self.eps))
        k, v = (each.repeat_interleave(self.heads // self.kv_heads, 2) for each in (k, v))
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        logits = torch.einsum("ah,bhqk->baqk", self.logit_mix.weight, q @ k.mT * self.width ** -0.5)
        weights = torch.einsum("ah,bhqk->baqk", self.weight_mix.weight, softmax_of_the_seen(logits))
        return (weights @ v).transpose(1, 2)


class Collaborative(Straight):
    """Heads weigh the channels of queries and keys that all share, which turn in blocks of D."""

    def __init__(self, c, parts):
        super().__init__(c, parts)
        shared = parts["shared_key_width"]
        self.q_proj, self.k_proj = (linear(shared, c.hidden_size) for _ in "qk")
        self.v_proj = linear(self.heads * self.width, c.hidden_size)
        self.mixing = self.gain(self.heads, shared)

    def turn(self, x):
        """x [B, T, heads, shared]"""
        blocks = x.unflatten(3, (-1, self.width))
        return self.rotary(blocks.flatten(2, 3)).view(blocks.shape).flatten(3)

    def attend(self, x):
        q = self.turn(self.q_proj(x)[:, :, None] * self.mixing.weight).transpose(1, 2)
        k = self.turn(self.k_proj(x)[:, :, None]).transpose(1, 2)
        v = self.v_proj(x).unflatten(2, (self.heads, self.width)).transpose(1, 2)
        return (softmax_of_the_seen(q @ k.mT * self.width ** -0.5) @ v).transpose(1, 2)


def deepseek(c, parts):
    """transformers' own MLA, with a rotary table of its width."""
    from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

    config = DeepseekV3Config(
        hidden_size=c.hidden_size, num_attention_heads=c.num_attention_heads,
        num_key_value_heads=c.num_attention_heads, q_lora_rank=parts.get("query_latent") or None,
        kv_lora_rank=parts["kv_latent"], qk_nope_head_dim=c.head_dim, v_head_dim=c.head_dim,
        qk_rope_head_dim=parts["rope_head_dim"], rope_interleave=False,
        max_position_embeddings=c.max_position_embeddings)
    config._attn_implementation = "sdpa"

    class Mla(DeepseekV3Attention):
        def __init__(self):
            super().__init__(config, 0)
            self.rotary = Rotary(c.max_position_embeddings, parts["rope_head_dim"],
                                 c.rope_parameters["rope_theta"])

        def forward(self, hidden_states, **_):
            tables = [each[None] for each in self.rotary.table(hidden_states)]
            return super().forward(hidden_states, tables, None)

    return Mla()


STRAIGHT = {"gta": Gta, "mla": Latent, "gla": Latent, "talking": Talking,
            "collaborative": Collaborative}


def load(folder, peer, dtype, experts=None):
    """The model in `folder` with the attention of `peer`: qwen3, deepseek or straight.

    `experts` names transformers' implementation of the experts, in a model that has them.
    """
    if peer == "qwen3":
        chosen = {"experts_implementation": experts} if experts else {}
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa",
                                                    **chosen)
    described = json.loads((Path(folder) / "config.json").read_text())
    parts = described.pop("kha")
    described["model_type"] = "qwen3"
    config = Qwen3Config.from_dict({**described, "attn_implementation": "sdpa"})
    model = Qwen3ForCausalLM(config)
    make = deepseek if peer == "deepseek" else STRAIGHT[parts["attention"]]
    for layer in model.model.layers:
        layer.self_attn = make(config, parts)
    weights = load_file(Path(folder) / "model.safetensors")
    missing, unknown = model.load_state_dict(weights, strict=False)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if set(missing) - tied or unknown:
        raise ValueError(f"{folder}: missing {missing}, unknown {unknown}")
    model.tie_weights()
    return model.to(dtype)
