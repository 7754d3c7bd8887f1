"""Which float32 product is faster on this CPU: torch's own (MKL) or oneDNN of the same wheel?

    python bench/products.py [--threads 2] [--rounds 12]

For the shapes of a training step and of decoding: y = x W^T, dx = g W and dW = g^T x, best of
interleaved windows, in GFLOP/s. The process runs itself again with memory that stays (GLIBC's
tunables): fresh pages for every result would otherwise be most of what is measured.
"""

import argparse
import os
import sys
import time

TUNABLES = (
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1"
)
SHAPES = [  # rows, inputs, outputs
    (4096, 1024, 1024), (4096, 1024, 3072), (4096, 3072, 1024), (4096, 512, 8192),
    (4096, 512, 512), (4096, 512, 1536), (4096, 1536, 512), (32768, 128, 128), (2048, 128, 384),
    (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024), (1, 1024, 3072), (1, 512, 8192),
]  # fmt: skip


def candidates(torch, x, weight, grad):
    """Form -> back end -> call. oneDNN wants rows of x adjacent, so its dW copies the gradient."""

    def onednn(a, b):  # a b^T
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")

    return {
        "y": {
            "mkl": lambda: torch.nn.functional.linear(x, weight),
            "onednn": lambda: onednn(x, weight),
        },
        "dx": {"mkl": lambda: grad.mm(weight), "onednn": lambda: onednn(grad, weight.t())},
        "dW": {
            "mkl": lambda: grad.t().mm(x),
            "onednn": lambda: onednn(grad.t().contiguous(), x.t()),
        },
    }


def best_seconds(calls, rounds, seconds):
    """The best mean over a window of about `seconds`, call by call in turn."""
    best = [float("inf")] * len(calls)
    for call in calls:
        call()
    for _ in range(rounds):
        for index, call in enumerate(calls):
            begin, count = time.perf_counter(), 0
            while count == 0 or time.perf_counter() - begin < seconds:
                call()
                count += 1
            best[index] = min(best[index], (time.perf_counter() - begin) / count)
    return best


def measure(torch, shape, rounds):
    rows, inputs, outputs = shape
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs) / inputs**0.5
    grad = torch.randn(rows, outputs)
    forms = candidates(torch, x, weight, grad)
    for form, calls in forms.items():
        first, second = (call() for call in calls.values())
        torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-3 * rows**0.5, msg=form)
    calls = [call for form in forms.values() for call in form.values()]
    best = best_seconds(calls, rounds, seconds=0.02)
    return [2e-9 * rows * inputs * outputs / seconds for seconds in best]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    if "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = TUNABLES
        os.execv(sys.executable, [sys.executable, *sys.argv])
    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    print(f"GFLOP/s on {torch.get_num_threads()} threads, mkl / onednn")
    print(f"{'rows x inputs x outputs':26}{'y':>14}{'dx':>14}{'dW':>14}")
    for shape in SHAPES:
        figures = measure(torch, shape, arguments.rounds)
        pairs = [f"{figures[i]:.0f} / {figures[i + 1]:.0f}" for i in (0, 2, 4)]
        print(f"{' x '.join(map(str, shape)):26}" + "".join(f"{pair:>14}" for pair in pairs), flush=True)


if __name__ == "__main__":
    main()
