"""Trains a Qwen3-type model with knocking heads under FSDP2 and ends with a plain checkpoint.

    torchrun --standalone --nproc-per-node 2 examples/fsdp2/train.py FOLDER --text FILES --to OUT

FOLDER is a plain model of a type that knocking_heads.insert knows; `--tiny` starts a random one over bytes instead.
Every step is torch's own (fully_shard, AdamW, torch.distributed.checkpoint); kha adds two calls:
`insert` before sharding and `fold` on the gathered weights. On CUDA the processes talk over NCCL,
elsewhere over gloo.
"""

import argparse
import hashlib
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard

import knocking_heads as kh

BYTES = 256


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="folder of a plain Qwen3-type model")
    parser.add_argument("--tiny", action="store_true", help="a random model over bytes instead")
    parser.add_argument("--text", nargs="+", required=True, help="text files or folders of them")
    parser.add_argument("--to", required=True, help="folder of the plain model at the end")
    parser.add_argument("--setting", default="kha-linear", help="kha-linear, kha-mlp, … or none")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4, help="windows a process and step")
    parser.add_argument("--length", type=int, default=128, help="tokens a window")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", help="folder of the sharded state; an existing one goes on")
    parser.add_argument("--every", type=int, default=25, help="steps between checkpoints")
    args = parser.parse_args()
    if bool(args.model) == args.tiny:
        parser.error("name a model folder, or give --tiny")
    return args


# ---- model ----


def build(args: argparse.Namespace) -> nn.Module:
    """The model with its maps, whole. The same on every process: the seed is."""
    import transformers

    torch.manual_seed(args.seed)
    if args.tiny:
        config = transformers.Qwen3Config(
            vocab_size=BYTES + 1, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=32, eos_token_id=BYTES,
            max_position_embeddings=max(args.length, 128), tie_word_embeddings=True)
        model = transformers.Qwen3ForCausalLM(config)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    if args.setting != "none":
        kh.insert(model, args.setting)
    return model.train()


def shard(model: nn.Module, device: torch.device) -> nn.Module:
    """Layer by layer, so that one layer at a time is whole. Maps lie with their layer."""
    model.to(device)
    for layer in model.model.layers:
        fully_shard(layer)
    return fully_shard(model)


# ---- data ----


def read_ids(args: argparse.Namespace) -> Tensor:
    """All text as one row of ids, by the model's tokenizer, or bytes for --tiny."""
    files = sorted(file for name in args.text for path in [Path(name)]
                   for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    text = "\n".join(file.read_text(errors="replace") for file in files)
    if args.tiny:
        return torch.tensor(list(text.encode()))
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    return torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])


def windows(ids: Tensor, args: argparse.Namespace, rank: int, world: int, first: int = 0,
            ) -> Iterator[Tensor]:
    """The batches ``[batch, length + 1]`` of one process from step `first` on.

    A step's windows are a slice of one permutation, cut by the global rank: what the steps of all
    processes see together does not depend on how many there are."""
    count = (len(ids) - 1) // args.length
    if count < world * args.batch:
        raise SystemExit(f"the text has {count} windows of {args.length} tokens; one step takes "
                         f"{world * args.batch}: give more text, or a smaller --length or --batch")
    step = first
    while True:
        epoch, place = divmod(step * world * args.batch, count - count % (world * args.batch))
        order = torch.randperm(count, generator=torch.Generator().manual_seed(args.seed + epoch))
        mine = order[place + rank * args.batch:][:args.batch]
        yield torch.stack([ids[at * args.length:][:args.length + 1] for at in mine.tolist()])
        step += 1


def check_slices(batch: Tensor, rank: int, world: int, device: torch.device) -> None:
    """Two processes with the same data train as one, and nothing else would show it."""
    digest = hashlib.sha256(batch.numpy().tobytes()).digest()[:8]
    mine = torch.frombuffer(bytearray(digest), dtype=torch.int64).to(device)
    every = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    hashes = [f"{each.item() & (2**64 - 1):016x}" for each in every]
    say(rank, "first batches: " + ", ".join(f"rank {at} {each}" for at, each in enumerate(hashes)))
    if len(set(hashes)) < world:
        raise SystemExit("two processes have the same first batch: their ranks are equal, or the "
                         "text repeats itself; start with torchrun, and look at RANK")


# ---- steps ----


def learning_rate(step: int, args: argparse.Namespace) -> float:
    """Warm-up over a tenth, then a cosine to a tenth: a function of the step alone."""
    warm = max(1, args.steps // 10)
    if step < warm:
        return args.lr * (step + 1) / warm
    done = (step - warm) / max(1, args.steps - warm)
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor,
               clip: float = 1.0) -> tuple[float, float, bool]:
    """One step: the loss a token over all processes, the gradient's norm, and whether it was taken.

    The loss counts tokens over all processes, and so does the gradient: fully_shard takes the mean
    over processes, which `world / tokens` turns into the mean over tokens. A step with a value that
    is not finite on any process is left out on all."""
    tokens = torch.tensor(batch[:, 1:].numel(), device=batch.device)
    dist.all_reduce(tokens)
    logits = model(batch[:, :-1], use_cache=False).logits.flatten(0, 1)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(wide, batch[:, 1:].flatten(), reduction="sum")
    (total * dist.get_world_size() / tokens).backward()
    loss = total.detach() / tokens
    dist.all_reduce(loss)
    norm = whole(torch.nn.utils.clip_grad_norm_(model.parameters(), clip))
    good = (loss.isfinite() & norm.isfinite()).float()
    dist.all_reduce(good, dist.ReduceOp.MIN)
    if good.item():
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item(), norm.item(), bool(good.item())


def whole(value: Tensor) -> Tensor:
    """The same number on every process; sharded gradients give the norm as a sharded tensor."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


# ---- checkpoints ----


def save_state(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Each process writes its part; any number of processes reads it again."""
    weights, moments = get_state_dict(model, optimizer)
    aside = f"{folder}/step-{step:08d}"
    dcp.save({"model": weights, "optimizer": moments, "step": torch.tensor(step)},
             checkpoint_id=aside)
    if dist.get_rank() == 0:
        (Path(folder) / "latest.tmp").write_text(f"step-{step:08d}")
        os.replace(Path(folder) / "latest.tmp", Path(folder) / "latest")


def load_state(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on from; 0 where the folder has no finished checkpoint."""
    latest = Path(folder) / "latest"
    if not latest.exists():
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=str(Path(folder) / latest.read_text()))
    set_state_dict(model, optimizer, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    return int(state["step"])


def write_plain(args: argparse.Namespace, model: nn.Module, ids: Tensor) -> None:
    """Gathers the weights on the first process, folds the maps there and writes the model."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if dist.get_rank() == 0:
        whole_model = build(args)
        whole_model.load_state_dict(weights)
        if args.setting != "none":
            print(kh.fold(whole_model.eval(), ids=ids[None, :args.length]), flush=True)
        whole_model.save_pretrained(args.to)
        if args.model:
            import transformers

            transformers.AutoTokenizer.from_pretrained(args.model).save_pretrained(args.to)
        print(f"written: {args.to}\nnext: kha inspect {args.to}", flush=True)
    dist.barrier()


def say(rank: int, line: str) -> None:
    if rank == 0:
        print(line, flush=True)


def main() -> None:
    args = parse()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    model = shard(build(args), device)
    optimizer = torch.optim.AdamW(kh.parameter_groups(model, 0.1, "paper"), lr=args.lr)
    first = load_state(args.checkpoint, model, optimizer) if args.checkpoint else 0
    ids = read_ids(args)
    say(rank, f"{world} processes on {device.type}, {len(ids)} tokens, from step {first}")
    for name, plan in kh.plan(model, args.batch * args.length).items():
        say(rank, f"  {name}: {plan}")
    began = time.monotonic()
    for step, batch in zip(range(first, args.steps), windows(ids, args, rank, world, first)):
        if step == first:
            check_slices(batch, rank, world, device)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        loss, norm, taken = train_step(model, optimizer, batch.to(device))
        left = (time.monotonic() - began) / (step + 1 - first) * (args.steps - step - 1)
        say(rank, f"step {step + 1}/{args.steps}  loss {loss:.4f}  gradient {norm:.3f}  "
                  f"left {left:.0f} s{'' if taken else '  NOT TAKEN: a value is not finite'}")
        if args.checkpoint and ((step + 1) % args.every == 0 or step + 1 == args.steps):
            save_state(args.checkpoint, model, optimizer, step + 1)
    write_plain(args, model, ids)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
