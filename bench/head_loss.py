"""Peak memory of output head and loss, forward and backward, each contender in a fresh process.

As a program (`python -m bench.head_loss CONTENDER ROWS WIDTH VOCAB`) it is such a process.
"""

import ctypes
import json
import subprocess
import sys

import torch
import torch.nn.functional as F

from bench.machine import ROOT
from bench.process import reset_peak, status_bytes


def composed(hidden, weight, targets):
    """Losses' mean and the two gradients, logits whole."""
    loss = F.cross_entropy(F.linear(hidden, weight), targets)
    return (loss, *torch.autograd.grad(loss, (hidden, weight)))


def one_pass(hidden, weight, targets):
    """kha's training form: gradients with the losses, from the same chunk of logits."""
    scales = torch.full((len(targets),), 1 / len(targets))
    with torch.no_grad():
        losses, dhidden, dweight = torch.ops.kha.head_loss_with_gradients.default(
            scales, hidden, weight, targets)
    return losses.mean(), dhidden, dweight


CONTENDERS = {"ours": one_pass, "torch eager": composed}


def available():
    """Contenders that this build has."""
    has_ours = hasattr(torch.ops.kha, "head_loss_with_gradients")
    return [name for name in CONTENDERS if name != "ours" or has_ours]


def inputs(rows, width, vocab, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, width, generator=generator)
    weight = torch.randn(vocab, width, generator=generator) * 0.05
    targets = torch.randint(vocab, (rows,), generator=generator)
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), targets


def check_parity(case, contenders=None):
    """Complaints about losses and gradients that differ from the double composition."""
    exact = composed(*inputs(case.rows, case.width, case.vocab, torch.double))
    complaints = []
    for name, function in (contenders or {n: CONTENDERS[n] for n in available()}).items():
        values = function(*inputs(case.rows, case.width, case.vocab))
        for part, value, wanted in zip(("loss", "dhidden", "dweight"), values, exact):
            error = (value.double() - wanted).abs().max().item()
            limit = 1e-5 * wanted.abs().max().item()
            if not error <= limit:
                complaints.append(f"{case.name}: {name}: {part} differs from the double "
                                  f"composition by {error:.3g}, allowed {limit:.3g}")
    return complaints


def peak_of(function, case):
    """Bytes of the second pass, inputs included: the resident peak above the process's own.

    The first starts threads, loads code, and lets the matrix library take the buffers that it keeps
    for the process, some 5 MB a thread whatever the problem. What else it freed is given back.
    """
    values = inputs(case.rows, case.width, case.vocab)
    function(*values)
    ctypes.CDLL(None).malloc_trim(0)
    own = status_bytes("VmRSS:") - sum(value.numel() * value.element_size() for value in values)
    reset_peak()
    function(*values)
    return status_bytes("VmHWM:") - own


def measure(cases, progress):
    rows = []
    for case in cases:
        for name in available():
            command = [sys.executable, "-m", "bench.head_loss", name, case.rows, case.width,
                       case.vocab]
            done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True,
                                  capture_output=True)
            if done.returncode:
                raise RuntimeError(f"{case.name}: {name} failed:\n{done.stderr[-2000:]}")
            peak = json.loads(done.stdout)["peak_bytes"]
            rows.append({"case": case.name, "vocab": case.vocab, "contender": name,
                         "peak_bytes": peak, "needed_bytes": case.needed_bytes(),
                         "peak_to_needed": peak / case.needed_bytes()})
            progress.advance(f"{case.name}: {name}")
    return rows


def main():
    import knocking_heads  # noqa: F401  (loads the operators)

    from bench.shapes import HeadCase

    case = HeadCase(*map(int, sys.argv[2:]))
    print(json.dumps({"peak_bytes": peak_of(CONTENDERS[sys.argv[1]], case)}))


if __name__ == "__main__":
    main()
