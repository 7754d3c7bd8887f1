"""The maps as each contender computes them, and the parity that comes before any time."""

import itertools
import types
from dataclasses import dataclass

import torch
import torch.nn.functional as F

numbers = itertools.count()
PARTS = ("y", "dx", "d1", "d2", "d3")


def knock_linear(x, weight):
    return F.linear(x, weight)


def knock_gate(x, gate):
    return (2 * x) * torch.sigmoid(F.linear(x, gate))


def knock_mlp(x, up, gate, down):
    return F.linear(F.linear(x, up) * torch.sigmoid(F.linear(x, gate)), 2 * down)


def composition(kind):
    """The map in torch's own operators, with as few passes over x as they allow: the factor 2
    stands at the small matrix where there is one. Each call gives a function of its own code,
    since torch.compile counts recompilations by code."""
    plain = {"knock_linear": knock_linear, "knock_gate": knock_gate, "knock_mlp": knock_mlp}[kind]
    code = plain.__code__.replace(co_name=f"{kind}_{next(numbers)}")
    return types.FunctionType(code, globals())


def ours(kind):
    return getattr(torch.ops.kha, kind).default


def compiled(kind):
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # else it falls back to eager unseen
    return torch.compile(composition(kind), dynamic=False)


CONTENDERS = {"ours": ours, "torch eager": composition, "torch.compile": compiled}


@dataclass
class Inputs:
    x: torch.Tensor  # [tokens, heads, dim]
    maps: list
    grad: torch.Tensor

    def leaves(self, dtype=None):
        values = [self.x, *self.maps]
        if dtype:
            values = [value.to(dtype) for value in values]
        return [value.detach().requires_grad_() for value in values]


def make_inputs(case):
    """Maps near the identity, as they are in training."""
    generator = torch.Generator().manual_seed(case.rows + case.dim)

    def noise(*shape, scale=1.0):
        return torch.randn(shape, generator=generator) * scale

    heads = case.heads * (2 if case.strided else 1)
    x = noise(case.tokens, heads, case.dim)[:, : case.heads]
    near = torch.eye(case.dim) + noise(case.dim, case.dim, scale=0.02)
    gate = noise(case.dim, case.dim, scale=0.1)
    maps = {"knock_linear": [near], "knock_gate": [gate],
            "knock_mlp": [near, gate, near.T.contiguous()]}[case.kind]
    return Inputs(x, maps, noise(case.tokens, case.heads, case.dim))


def forward_and_backward(function, inputs, dtype=None):
    leaves = inputs.leaves(dtype)
    y = function(*leaves)
    gradients = torch.autograd.grad(y, leaves, inputs.grad.to(y.dtype))
    return [y.detach(), *gradients]


def largest_error(values, exact):
    return [(v.double() - e).abs().max().item() for v, e in zip(values, exact)]


def parity_of(case, functions, inputs):
    """Complaints about contenders that differ from the double composition.

    Each may err twice as far as torch's float32 composition does, and by four roundings of the
    largest value; that composition itself is held to a millionth of it for each value it sums.
    """
    exact = forward_and_backward(composition(case.kind), inputs, torch.double)
    plain = largest_error(forward_and_backward(composition(case.kind), inputs), exact)
    epsilon = torch.finfo(torch.float32).eps
    complaints = []
    for name, function in functions.items():
        errors = largest_error(forward_and_backward(function, inputs), exact)
        for index, (part, error) in enumerate(zip(PARTS, errors)):
            size = exact[index].abs().max().item()
            summed = case.dim if index < 2 else case.rows
            limit = min(2 * plain[index] + 4 * epsilon * size, 1e-6 * summed * size)
            if not error <= limit:
                complaints.append(f"{case.name}: {name}: {part} differs from the double "
                                  f"composition by {error:.3g}, allowed {limit:.3g}")
    return complaints


def saved_bytes(function, inputs):
    """What autograd keeps for the backward pass, without the maps themselves."""
    leaves = inputs.leaves()
    matrices = {leaf.data_ptr() for leaf in leaves[1:]}
    kept = {}

    def pack(tensor):
        kept[tensor.data_ptr(), tuple(tensor.shape)] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*leaves)
    return sum(size for (pointer, _), size in kept.items() if pointer not in matrices)
