"""A decode step of MLA as a straight composition of torch's operators, on commands as those of kha's
bench-decode: forms `absorbed` and `formed`, and `exact`, which is `formed` in float64."""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from bench import peer_models


def some_input(batch, every, first, length, width):
    """The layer's input, as src/model/decode_bench.h defines it: [B, T, d] of float32 values."""
    line = torch.arange
    place = (line(batch).double()[:, None, None] * every
             + line(first, first + length).double()[:, None])
    return torch.sin(1.7 * (place * width + line(width).double()) + 0.3).float()


class Decode:
    def __init__(self, folder, batch, positions):
        model = peer_models.load(folder, "straight", torch.float32)
        self.layer = model.model.layers[0].self_attn
        self.positions = positions
        width = model.config.hidden_size
        x = some_input(batch, positions + 1, 0, positions + 1, width)
        self.next = x[:, positions:]
        self.cache = self.entry(self.layer, x, 0)

    def entry(self, layer, x, first):
        """Latents [B, T, d_c] after their norm and the rotated key [B, T, d_R]."""
        latents, turned = layer.kv_a_proj_with_mqa(x).split([layer.latent, layer.rotated], -1)
        latents = peer_models.norm(latents, layer.kv_a_layernorm.weight, layer.eps)
        return [latents, self.turn(layer, turned[:, :, None], first)[:, :, 0]]

    @staticmethod
    def turn(layer, x, first):
        cos, sin = (table[first:first + x.size(1), None].to(x.dtype)
                    for table in (layer.rotary.cos, layer.rotary.sin))
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    def queries(self, layer, x):
        q = layer.q_proj(x) if layer.q_a_proj is None else layer.q_b_proj(
            peer_models.norm(layer.q_a_proj(x), layer.q_a_layernorm.weight, layer.eps))
        plain, turned = q.unflatten(2, (layer.heads, -1)).split([layer.width, layer.rotated], -1)
        return plain[:, 0], self.turn(layer, turned, self.positions)[:, 0]

    def step(self, form):
        if form == "exact":
            layer, x = self.layer.double(), self.next.double()
            cache = [each.double() for each in self.cache]
        else:
            layer, x, cache = self.layer, self.next, self.cache
        plain, turned = self.queries(layer, x)
        for all_, new in zip(cache, self.entry(layer, x, self.positions)):
            all_[:, self.positions:] = new
        attend = self.absorbed if form == "absorbed" else self.formed
        y = layer.o_proj(attend(layer, plain, turned, *cache).flatten(1))
        if form == "exact":
            self.layer.float()
        return y[:, None]

    @staticmethod
    def weights(layer, scores):
        return torch.softmax(scores / (layer.width + layer.rotated) ** 0.5, -1)

    def absorbed(self, layer, plain, turned, latents, rotated):
        keys, values = layer.kv_b_proj.weight.view(layer.heads, 2, layer.width, -1).unbind(1)
        q = torch.einsum("bhd,hdc->bhc", plain, keys)
        scores = (torch.einsum("bhc,bsc->bhs", q, latents)
                  + torch.einsum("bhr,bsr->bhs", turned, rotated))
        sums = torch.einsum("bhs,bsc->bhc", self.weights(layer, scores), latents)
        return torch.einsum("bhc,hdc->bhd", sums, values)

    def formed(self, layer, plain, turned, latents, rotated):
        keys, values = layer.kv_b_proj(latents).unflatten(2, (layer.heads, -1)).chunk(2, -1)
        scores = (torch.einsum("bhd,bshd->bhs", plain, keys)
                  + torch.einsum("bhr,bsr->bhs", turned, rotated))
        return torch.einsum("bhs,bshd->bhd", self.weights(layer, scores), values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--positions", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    decode = Decode(Path(options.model), options.batch, options.positions)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        _, count, form = line.split()
        seconds = []
        for _ in range(int(count)):
            begin = time.perf_counter()
            y = decode.step(form)
            seconds.append(time.perf_counter() - begin)
        bytes_ = sum(each.nbytes for each in decode.cache)
        print(json.dumps({"seconds": seconds, "cache_bytes": bytes_,
                          "output": y.flatten().tolist()}), flush=True)


if __name__ == "__main__":
    main()
