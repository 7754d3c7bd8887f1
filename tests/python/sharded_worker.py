"""What two processes check together; started by torchrun from test_sharded.py.

    torchrun … sharded_worker.py EXAMPLE_FOLDER RESULTS.json STATE_FOLDER

Every check returns plain values; the first process writes them as one JSON object.
"""

import copy
import json
import os
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from live_models import live_model, stir

sys.path.insert(0, sys.argv[1])
import train as example  # noqa: E402

import knocking_heads as kh  # noqa: E402

BATCH, LENGTH, VOCABULARY = 2, 37, 50
ROWS = torch.randint(VOCABULARY, (12, 2 * BATCH, LENGTH + 1),
                     generator=torch.Generator().manual_seed(3))
SETTINGS = {
    "linear": ("kha-linear", "weight_space"),
    "linear on activations": ("kha-linear", "activation_space"),
    "mlp": ("kha-mlp-qkv", "auto"),
    "gate": ("kha-gate-v", "auto"),
}


def inserted(setting, plan="auto", family="qwen3"):
    model = live_model(family, dtype=torch.float64, vocab_size=VOCABULARY)
    if hasattr(model.config, "num_experts"):
        model.set_experts_implementation("eager")  # the grouped products know no float64
    kh.insert(model, setting, plan=plan)
    return stir(model, size=0.1)


def optimiser(model):
    # Decay towards the identity, which acts on shards too.
    return torch.optim.AdamW(kh.parameter_groups(model, 0.1, "to_identity"), lr=3e-3)


def losses(model, mine, steps=6):
    own = optimiser(model)
    return [example.train_step(model, own, ROWS[step, mine])[0] for step in range(steps)]


def alone(setting, plan):
    """The same steps in this process, without any sharding: all rows, plain gradients."""
    model = inserted(setting, plan)
    own, told = optimiser(model), []
    for step in range(6):
        logits = model(ROWS[step, :, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ROWS[step, :, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        own.step()
        own.zero_grad()
        told.append(loss.item())
    return told


def own_rows():
    return slice(dist.get_rank() * BATCH, (dist.get_rank() + 1) * BATCH)


def sharded_losses():
    return {name: [alone(*chosen), losses(example.shard(inserted(*chosen), CPU), own_rows())]
            for name, chosen in SETTINGS.items()}


def replicated_losses():
    wrap = torch.nn.parallel.DistributedDataParallel
    return {name: [alone(*chosen), losses(wrap(inserted(*chosen)), own_rows())]
            for name, chosen in SETTINGS.items()}


def kept_weights():
    """Shapes of weights that a forward under FSDP2 keeps alive, whole, until backward."""
    found = {}
    for name, chosen in SETTINGS.items():
        model = inserted(*chosen)
        # The embedding belongs to the root, which fully_shard keeps whole by design.
        shapes = {tuple(each.shape) for key, each in model.named_parameters() if "layers" in key}
        shapes |= {shape[::-1] for shape in shapes}
        example.shard(model, CPU)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            loss = model(ROWS[0, own_rows(), :-1], use_cache=False).logits.sum()
        whole = [list(each.shape) for each in saved
                 if tuple(each.shape) in shapes and each.dim() == 2
                 and each.untyped_storage().nbytes() > 0]
        found[name] = {"saved": len(saved), "whole": whole}
        loss.backward()
    return found


def poisoned_rank():
    """A value that is not finite on the second process alone, then a clean step."""
    model = example.shard(inserted("kha-mlp"), CPU)
    own = optimiser(model)
    example.train_step(model, own, ROWS[0, own_rows()])
    before = whole_state(model)
    poison = model.lm_head.register_forward_hook(
        lambda module, given, out: out * (float("nan") if dist.get_rank() == 1 else 1.0))
    _, _, taken = example.train_step(model, own, ROWS[1, own_rows()])
    poison.remove()
    after = whole_state(model)
    same = all(torch.equal(before[name], after[name]) for name in before)
    loss, _, next_taken = example.train_step(model, own, ROWS[2, own_rows()])
    return {"taken": gathered(taken), "unchanged": gathered(same), "loss": loss,
            "next taken": gathered(next_taken)}


def whole_state(model):
    options = example.StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = example.get_model_state_dict(model, options=options)
    every = [copy.deepcopy(state)]
    dist.broadcast_object_list(every)
    return every[0]


def disjoint_experts():
    """Every process routes to experts of its own; 20 steps must not wait for one another."""
    model = inserted("kha-mlp", family="qwen3_moe")
    with torch.no_grad():
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[:VOCABULARY // 2, 0] = 40.0
        model.model.embed_tokens.weight[VOCABULARY // 2:, 1] = 40.0
        for layer in model.model.layers:
            layer.mlp.gate.weight.zero_()
            layer.mlp.gate.weight[0:2, 0] = 5.0  # ids of the first half: experts 0 and 1
            layer.mlp.gate.weight[2:4, 1] = 5.0
    used = set()

    def note(module, given, out):
        used.update(out[-1].flatten().tolist())

    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(note)
    example.shard(model, CPU)
    own, began = optimiser(model), time.monotonic()
    half = ROWS % (VOCABULARY // 2) + dist.get_rank() * (VOCABULARY // 2)
    first = None
    for step in range(20):
        example.train_step(model, own, half[step % len(half), own_rows()])
        first = first or sorted(used)
    return {"experts": gathered(first), "seconds": time.monotonic() - began}


def first_batches():
    """Slices follow the global rank, whatever LOCAL_RANK says; equal ones are refused."""
    args = SimpleNamespace(batch=BATCH, length=LENGTH, seed=1)
    text = torch.arange(2000)
    os.environ["LOCAL_RANK"] = "0"
    mine = next(example.windows(text, args, dist.get_rank(), 2))
    example.check_slices(mine, 1, 2, CPU)  # as rank 1, so that it prints nothing
    try:
        example.check_slices(next(example.windows(text, args, 0, 2)), 1, 2, CPU)
        refused = "not refused"
    except SystemExit as error:
        refused = str(error)
    return {"first ids": gathered(mine[:, 0].tolist()), "refused": refused}


def saved_state(folder):
    model = example.shard(inserted("kha-linear"), CPU)
    own = optimiser(model)
    example.train_step(model, own, ROWS[0, own_rows()])
    example.save_state(folder, model, own, 1)
    state = whole_state(model)
    if dist.get_rank() == 0:
        torch.save(state, Path(folder) / "whole.pt")
    return {"tensors": len(state), "next losses": next_losses(model, own)}


def next_losses(model, own):
    """Of two more steps: the second has seen what the optimiser's moments do. All rows over fewer
    or more processes are the same batch, cut in another way."""
    mine = [rows.tensor_split(dist.get_world_size())[dist.get_rank()] for rows in ROWS[1:3]]
    return [example.train_step(model, own, rows)[0] for rows in mine]


def plain_model():
    import transformers

    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=36, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=10))


def started_after_sharding():
    """A model made on "meta", sharded, and only then filled: every map is the identity."""
    with torch.device("meta"):
        model = plain_model()
        kh.insert(model, "kha-mlp-qkv")
    example.shard(model, "meta").to_empty(device="cpu")
    for module in model.modules():
        if isinstance(module, kh.KnockingHeads):
            module.reset_parameters()
    return {name: bool(torch.equal(value, torch.zeros_like(value) if "gate" in name
                                   else torch.eye(*value.shape)))
            for name, value in whole_state(model).items() if "knock" in name}


def gathered(value):
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, value)
    return every


def read_again(folder):
    """In another number of processes: the same weights, and the same next step."""
    model = example.shard(inserted("kha-linear"), CPU)
    own = optimiser(model)
    step = example.load_state(folder, model, own)
    state, wanted = whole_state(model), torch.load(Path(folder) / "whole.pt")
    same = {name: torch.equal(state[name], wanted[name]) for name in wanted}
    return {"step": step, "same": same, "missing": sorted(set(wanted) ^ set(state)),
            "next losses": next_losses(model, own)}


def main():
    global CPU
    CPU = torch.device("cpu")
    warnings.filterwarnings("ignore")
    dist.init_process_group("gloo")
    folder = sys.argv[3]
    if dist.get_world_size() == 2:
        results = {"sharded": sharded_losses(), "replicated": replicated_losses(),
                   "kept": kept_weights(), "poisoned": poisoned_rank(),
                   "experts": disjoint_experts(), "slices": first_batches(),
                   "started": started_after_sharding(),
                   "saved": saved_state(folder)}
    else:
        results = read_again(folder)
    if dist.get_rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(results))
    dist.destroy_process_group()


main()
