"""The mlp map of the package against the same map as torch modules: time and what is kept."""

import sys

import torch

import knocking_heads as kh
from python_timing import interval, timed


class TorchMap(torch.nn.Module):
    """The mlp map as one writes it with torch's own modules."""

    def __init__(self, dim):
        super().__init__()
        self.up, self.gate, self.down = (torch.nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        return 2 * self.down(self.up(x) * torch.sigmoid(self.gate(x)))


def saved_bytes(map, x):
    """Bytes that backward keeps, parameters left out."""
    own = {parameter.data_ptr() for parameter in map.parameters()}
    kept = {}

    def note(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        map(x)
    return sum(kept.values())


def map_pair(rows, dim, options):
    """Our map and torch's with equal weights, x [1, rows, 1, dim] and a gradient; exits where their
    results differ."""
    dtype = getattr(torch, options.dtype)
    ours = kh.KnockingHeads(dim, "mlp", "random", std=0.1, device=options.device, dtype=dtype)
    theirs = TorchMap(dim).to(options.device, dtype)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(1, rows, 1, dim, dtype=dtype, device=options.device, requires_grad=True)
    scale = theirs(x).abs().max()
    if not (ours(x) - theirs(x)).abs().max() <= 64 * torch.finfo(dtype).eps * scale:
        sys.exit("the maps differ, so nothing is measured")
    return ours, theirs, x, torch.randn_like(x)


def forward_pass(map, x, grad):
    with torch.no_grad():
        map(x)


def both_passes(map, x, grad):
    torch.autograd.grad(map(x), [x, *map.parameters()], grad)


def compare_map(rows, dim, options):
    """Gains of one shape, and what backward keeps."""
    ours, theirs, x, grad = map_pair(rows, dim, options)
    found = {}
    for words, work in ((" forward", forward_pass), ("", both_passes)):
        rounds = []
        for number in range(max(options.rounds, 20) + 2):
            pair = (ours, theirs) if number % 2 else (theirs, ours)
            times = {map: timed(lambda: work(map, x, grad), options) for map in pair}
            if number > 1:  # the first ones bring memory and threads
                rounds.append((times[theirs], times[ours]))
        for clock, index in (("", 0), (", thread time", 1)):
            found[f"mlp map{words}, {rows} x {dim}{clock}"] = interval(
                [other[index] for other, _ in rounds], [mine[index] for _, mine in rounds])
    found[f"saved bytes over x, {rows} x {dim}"] = {"median": saved_bytes(ours, x) / x.nbytes}
    found[f"torch modules' saved bytes, {rows} x {dim}"] = {
        "median": saved_bytes(theirs, x) / x.nbytes}
    return found


def compare_maps(size, options):
    """V of this size's batch, V of eight KV heads, the same with heads of 64, and a longer one."""
    tokens = options.batch * options.context
    shapes = dict.fromkeys([(tokens * size["num_key_value_heads"], size["head_dim"]),
                            (tokens * 8, 128), (tokens * 8, 64), (tokens * 16, 128)])
    return {name: row for rows, dim in shapes
            for name, row in compare_map(rows, dim, options).items()}
