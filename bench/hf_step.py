"""The training step of a peer, transformers' Qwen3 or another, as kha's bench-step makes its own: the
same commands.

Eager, SDPA attention, the model's own loss, clipping by torch, fused AdamW. `batch JSON` sets the
ids and targets of the steps that follow.
"""

import argparse
import json
import sys
import time

import torch

from bench import peer_models
from bench.process import minor_faults, reset_peak, status_bytes


class Step:
    def __init__(self, options):
        torch.set_num_threads(options.threads)
        self.model = peer_models.load(options.model, options.peer, getattr(torch, options.dtype),
                                      options.experts)
        self.model.train()
        self.clip = options.clip
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": options.weight_decay},
             {"params": vectors, "weight_decay": 0.0}],
            lr=options.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)
        self.ids = self.targets = None

    def set_batch(self, batch):
        shape = batch["rows"], batch["context"]
        self.ids = torch.tensor(batch["inputs"]).view(shape)
        self.targets = torch.tensor(batch["targets"]).view(shape)

    def make(self):
        begin, faults = time.perf_counter(), minor_faults()
        loss = self.model(input_ids=self.ids, labels=self.targets, shift_labels=self.targets,
                          use_cache=False).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item(), norm.item(), time.perf_counter() - begin, minor_faults() - faults


def make_steps(step, count):
    made = [step.make() for _ in range(count)]
    losses, norms, seconds, faults = map(list, zip(*made))
    return {"seconds": seconds, "faults": faults, "loss": losses, "norm": norms,
            "peak_bytes": status_bytes("VmHWM:"), "resident_bytes": status_bytes("VmRSS:")}


def obey(line, step):
    word, _, rest = line.partition(" ")
    if word == "steps":
        return make_steps(step, int(rest))
    if word == "batch":
        step.set_batch(json.loads(rest))
        return {"rows": len(step.ids)}
    if word == "reset-peak":
        reset_peak()
        return {"resident_bytes": status_bytes("VmRSS:")}
    sys.exit(f"error: hf_step does not know {line!r}; expected steps N, batch JSON, reset-peak or "
             "quit")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--peer", default="qwen3", choices=["qwen3", "deepseek", "straight"],
                        help="whose attention: transformers' Qwen3 or DeepSeek, or a straight "
                             "composition of torch's operators")
    parser.add_argument("--experts", help="transformers' implementation of the experts")
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--weight-decay", type=float, required=True)
    parser.add_argument("--clip", type=float, required=True)
    step = Step(parser.parse_args())
    print(json.dumps({"ready": True, "attention": step.model.config._attn_implementation}),
          flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        print(json.dumps(obey(line.rstrip("\n"), step)), flush=True)


if __name__ == "__main__":
    main()
