"""Inserted models under what people train with: compile, export, autocast, checkpointing, Trainer."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from live_models import TOKENS, largest, live_model, logits, stir

import knocking_heads as kh


def gradients(model, ids=TOKENS):
    model.zero_grad()
    loss = model(ids, labels=ids, use_cache=False).loss
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad for name, p in model.named_parameters()}}


def assert_close(found, expected, tolerance):
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item())
        assert largest(found[name], value) <= tolerance * scale, name


KINDS = {"q": "linear", "k": "gate", "v": "mlp"}


def test_compiled_whole_for_every_length():
    """One graph without a break; lengths on both sides of the place where the plan changes."""
    torch._dynamo.reset()
    model = stir(kh.insert(live_model(num_hidden_layers=1), KINDS))
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=count)
    for length in (7, 11, 40, 60):
        ids = TOKENS[:, :length]
        found = compiled(ids, use_cache=False).logits
        expected = model(ids, use_cache=False).logits
        assert largest(found, expected) < 1e-4
    assert len(graphs) <= 3  # one a plan, and one for the first length
    used = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    for name in ("knock_linear", "knocked_linear", "knock_gate", "knock_mlp"):
        assert any(name in target for target in used), name


def test_compiled_gradients():
    torch._dynamo.reset()
    model = stir(kh.insert(live_model(num_hidden_layers=1), KINDS))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = {name.removeprefix("_orig_mod."): value for name, value in gradients(compiled).items()}
    assert_close(found, gradients(copy.deepcopy(model)), 1e-4)


@pytest.mark.parametrize("strict", [False, True])
def test_exported_with_a_free_length(strict):
    model = stir(kh.insert(live_model(num_hidden_layers=1), KINDS))
    time = torch.export.Dim.AUTO
    ids = TOKENS[:, :9].contiguous()
    program = torch.export.export(model, (ids,), dict(use_cache=False), strict=strict,
                                  dynamic_shapes={"input_ids": {1: time}, "use_cache": None})
    names = {node.target.name() for node in program.graph.nodes if hasattr(node.target, "name")}
    assert {"kha::knock_linear", "kha::knock_gate", "kha::knock_mlp"} <= names
    for length in (5, 60):
        found = program.module()(TOKENS[:, :length].contiguous(), use_cache=False).logits
        assert largest(found, logits(model, TOKENS[:, :length])) < 1e-3
    state = set(program.state_dict)
    assert {name for name, _ in model.named_parameters()} <= state


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(reentrant):
    model = stir(kh.insert(live_model(), {"q": "linear", "v": "mlp"}))
    expected = gradients(model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        model(TOKENS, use_cache=False)
    assert not any(shape[-2:] == (2, 8) for shape in kept)  # no head of a layer is kept
    assert_close(gradients(model), expected, 1e-5)


def test_autocast():
    model = stir(kh.insert(live_model(), "kha-mlp-qkv"))
    expected = gradients(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model.model.layers[0].self_attn.v_proj(torch.randn(5, 36))
        found = gradients(model)
    assert y.dtype == torch.bfloat16
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())
    assert abs(found["loss"] - expected["loss"]) < 0.05 * expected["loss"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_trains_in_every_type(dtype):
    model = stir(kh.insert(live_model(dtype=dtype), {"q": "linear", "v": "mlp"}), size=0.1)
    found = gradients(model)
    assert all(value.dtype == dtype and value.isfinite().all()
               for name, value in found.items() if name != "loss")


def test_a_gradient_by_finite_differences():
    """Of the whole model, whose norms compute in float32 whatever its type."""
    model = stir(kh.insert(live_model(dtype=torch.float64), KINDS), size=0.1)
    gradients(model)
    step = 1e-2
    for name in ("knock_q.weight", "knock_k.gate.weight", "knock_v.up.weight", "knock_v.gate.weight"):
        matrix = model.get_parameter(f"model.layers.1.self_attn.{name}")
        at = divmod(matrix.grad.abs().argmax().item(), 8)
        losses = []
        for side in (1, -1):
            with torch.no_grad():
                matrix[at] += side * step
                losses.append(model(TOKENS, labels=TOKENS).loss.item())
                matrix[at] -= side * step
        assert matrix.grad[at].item() == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=0.02)


def test_attention_backends_agree():
    found = {}
    for backend in ("eager", "sdpa"):
        model = stir(kh.insert(live_model(head_dim=16), "kha-mlp-qkv"))
        model.set_attn_implementation(backend)
        found[backend] = logits(model.eval())
    assert largest(found["eager"], found["sdpa"]) < 1e-3


def test_tied_weights_stay_tied():
    model = kh.insert(live_model(), "kha-linear")
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.tie_weights()
    kh.fold(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        row = TOKENS.flatten()[index : index + 24]
        return {"input_ids": row, "labels": row}


def trainer(model, folder, **options):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        folder, per_device_train_batch_size=4, logging_steps=1, report_to="none", use_cpu=True,
        save_steps=4, learning_rate=1e-2, disable_tqdm=True, **options)
    optimizer = torch.optim.AdamW(kh.parameter_groups(model), lr=1e-2)
    return Trainer(model, arguments, train_dataset=Rows(), optimizers=(optimizer, None))


def test_the_trainer_of_transformers_trains_saves_and_resumes(tmp_path):
    model = kh.insert(live_model(), "kha-mlp")
    whole = trainer(model, str(tmp_path), max_steps=8, save_total_limit=2)
    whole.train()
    losses = [entry["loss"] for entry in whole.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.5
    assert kh.report(model).maps[0].figures.identity_distance > 1e-3
    opened = kh.load(tmp_path / "checkpoint-8")
    assert largest(logits(opened), logits(model.eval())) < 1e-6
    again = kh.insert(live_model(seed=3), "kha-mlp")
    trainer(again, str(tmp_path), max_steps=8).train(str(tmp_path / "checkpoint-4"))
    assert largest(logits(again.eval()), logits(model)) < 1e-4


PROGRAM = """
import sys, torch
for name in ("transformers", "matplotlib", "safetensors", "accelerate"):
    sys.modules[name] = None
import knocking_heads as kh
knock = kh.KnockingHeads(8, "mlp")
x = torch.randn(3, 2, 8)
assert torch.equal(knock(x), x)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wv = torch.nn.Linear(8, 16)
block = kh.insert(Block(), "kha-linear-v", projections={"v": "wv"}, head_dim=8)
kh.fold(block), kh.parameter_groups(block)
print("works")
"""


def test_works_without_transformers_and_matplotlib():
    source = Path(kh.__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(source)})
    assert done.stdout == "works\n", done.stderr
