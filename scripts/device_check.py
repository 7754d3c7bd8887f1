"""Parity of the kha:: operators on a device, then their cost beside torch's own composition.

Then a decode step of every attention system, as `kha bench-decode` makes it, and a training step of a
mixture of experts, beside the CPU's.

Run by scripts/device-check. Exit 1 where parity fails; no ratio is printed then.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.paired import paired_ratio, rotated  # noqa: E402  (no installation is needed)

# rows, heads, head width: the paper's shapes (32 / 4 heads of 128) and a small one.
SHAPES = {"cuda": [(4096, 4, 128), (16384, 4, 128), (16384, 32, 128), (4096, 8, 64)],
          "cpu": [(512, 4, 128), (1024, 8, 64)]}


def arguments(name, x, d):
    """The operator's arguments behind x, near the identity."""
    near = torch.eye(d, dtype=x.dtype, device=x.device)
    noise = lambda: torch.randn(d, d, dtype=x.dtype, device=x.device) * 0.1
    return {"knock_linear": lambda: [near + noise()],
            "knock_gate": lambda: [noise()],
            "knock_mlp": lambda: [near + noise(), noise(), near + noise()]}[name]()


def composition(name, x, *maps):
    """The same maths in plain torch."""
    if name == "knock_linear":
        return x @ maps[0].T
    if name == "knock_gate":
        return 2 * x * torch.sigmoid(x @ maps[0].T)
    up, gate, down = maps
    return 2 * ((x @ up.T) * torch.sigmoid(x @ gate.T)) @ down.T


def run(function, inputs, grad):
    leaves = [value.detach().clone().requires_grad_(True) for value in inputs]
    y = function(*leaves)
    y.backward(grad)
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def check_parity(device):
    """Largest error of ours at most twice torch's own in the same dtype, against float64."""
    bad = 0
    for name in ("knock_linear", "knock_gate", "knock_mlp"):
        ours = getattr(torch.ops.kha, name)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            x = torch.randn(257, 3, 64, dtype=dtype, device=device)
            inputs, grad = [x, *arguments(name, x, 64)], torch.randn_like(x)
            exact = run(lambda *a: composition(name, *a), [v.double() for v in inputs], grad.double())
            theirs = run(lambda *a: composition(name, *a), inputs, grad)
            mine = run(ours, inputs, grad)
            for part, e, t, m in zip(["y", "dx", "d1", "d2", "d3"], exact, theirs, mine):
                # float64 has nothing more exact beside it: there both sides round. Elsewhere four
                # roundings allow for a weight gradient's sum over all rows in another order.
                units = 64 if dtype == torch.float64 else 4
                limit = 2 * (t.double() - e).abs().max().item() + units * torch.finfo(dtype).eps * e.abs().max().item()
                error = (m.double() - e).abs().max().item()
                if not error <= limit:
                    bad += 1
                    print(f"FAILED {name} {dtype} {part}: error {error:.3g}, limit {limit:.3g}")
            eye, zero = torch.eye(64, dtype=dtype, device=device), torch.zeros(64, 64, dtype=dtype, device=device)
            start = {"knock_linear": [eye], "knock_gate": [zero], "knock_mlp": [eye, zero, eye]}[name]
            if not ours(x, *start).equal(x):
                bad += 1
                print(f"FAILED {name} {dtype}: the identity start is not exact")
    print(f"parity: {'all good' if not bad else f'{bad} failures'} (three maps, four dtypes, forward and backward)")
    return bad == 0


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(device, function, repeats):
    times = []
    for _ in range(repeats):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return times


def saved_bytes(function, inputs):
    """Bytes that autograd keeps of anything but the inputs themselves, and of x."""
    leaves = [value.detach().clone().requires_grad_(True) for value in inputs]
    kept = {}
    hook = lambda t: kept.setdefault(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (hook(t), t)[1], lambda t: t):
        function(*leaves)
    matrices = {leaf.untyped_storage().data_ptr() for leaf in leaves[1:]}
    return sum(size for pointer, size in kept.items() if pointer not in matrices)


def compare(device, dtype):
    print(f"\n{'map':<14}{'rows x heads x D':<20}{'pass':<10}{'ours ms':>9}{'against eager':>24}"
          f"{'against compiled':>24}{'kept':>8}{'eager keeps':>13}   ({dtype}, median of paired ratios "
          "with its 95 % interval; above 1: ours is faster)")
    for name in ("knock_linear", "knock_gate", "knock_mlp"):
        ours = getattr(torch.ops.kha, name)
        eager = lambda *a, name=name: composition(name, *a)
        for rows, heads, d in SHAPES[device]:
            torch._dynamo.reset()  # past its limit of recompilations it would fall back to eager unseen
            compiled = torch.compile(eager)
            x = torch.randn(rows, heads, d, dtype=dtype, device=device)
            inputs, grad = [x, *arguments(name, x, d)], torch.randn_like(x)
            for label, step in {"forward": lambda f: f(*inputs), "both": lambda f: run(f, inputs, grad)}.items():
                with torch.set_grad_enabled(label == "both"):
                    for f in (ours, eager, compiled):
                        [step(f) for _ in range(3)]
                    times = {f: [] for f in (ours, eager, compiled)}
                    for turn in range(30):
                        for f in rotated(list(times), turn):
                            times[f] += seconds(device, lambda: step(f), 1)
                mine = statistics.median(times[ours])
                ratios = [str(paired_ratio(times[f], times[ours])) for f in (eager, compiled)]
                unit = x.numel() * x.element_size()
                print(f"{name:<14}{f'{rows} x {heads} x {d}':<20}{label:<10}{mine * 1e3:>9.3f}{ratios[0]:>24}"
                      f"{ratios[1]:>24}{saved_bytes(ours, inputs) / unit:>7.1f}x"
                      f"{saved_bytes(eager, inputs) / unit:>12.1f}x")


KHA = Path(os.environ.get("KHA", Path(sys.prefix) / "bin" / "kha"))
# Of one layer: attention, its parts, KV heads of 32 heads of 128.
SYSTEMS = {"gqa": ({}, 4), "gta": ({"rope_head_dim": 64}, 4),
           "mla": ({"latent_heads": 1, "kv_latent": 512, "rope_head_dim": 64, "query_latent": 1024}, 32),
           "gla": ({"latent_heads": 2, "kv_latent": 256, "rope_head_dim": 64, "query_latent": 1024}, 32)}


def start_decode(device, attention, positions):
    """`kha bench-decode` of one attention system on a device."""
    from bench.child import Child

    parts, kv_heads = SYSTEMS[attention]
    values = {"hidden_size": 1536, "num_attention_heads": 32, "num_key_value_heads": kv_heads,
              "head_dim": 128, "attention": f'"{attention}"', **parts}
    words = [word for key, value in values.items() for word in ("--set", f"model.{key}={value}")]
    return Child(f"{attention} on {device}", [str(KHA), "bench-decode", *words, "--set", 'knock.setting="baseline"',
                 "--set", f'train.device="{device}"', "--positions", str(positions)])


def check_decode(device, positions, steps=30):
    """A decode step of each attention: the device's numbers beside the CPU's, then its times."""
    if not KHA.exists():
        print(f"\ndecode steps are not checked: no {KHA}; build kha with this torch, or set KHA")
        return True
    good = True
    print(f"\n{'decode step':<14}{'form':<12}{'off the CPU':>12}{'median ms':>11}{'against formed or attend':>28}   "
          f"({positions} positions, one layer, d 1536, 32 heads of 128)")
    for attention in SYSTEMS:
        with start_decode("cpu", attention, positions) as cpu, start_decode(device, attention, positions) as child:
            exact = cpu.ask("steps 1 attend")["output"]
            size = max(map(abs, exact))
            forms = child.ready["forms"]
            base = "formed" if "formed" in forms else "attend"
            made = {form: child.ask(f"steps {steps} {form}") for form in forms}
            for form, answer in made.items():
                off = max(abs(a - b) for a, b in zip(answer["output"], exact)) / size
                good = good and off < 1e-4
                ratio = paired_ratio(made[base]["seconds"][5:], answer["seconds"][5:])
                print(f"{attention:<14}{form:<12}{off:>12.2g}{statistics.median(answer['seconds'][5:]) * 1e3:>11.3f}"
                      f"{str(ratio):>28}{'' if off < 1e-4 else '   FAILED: more than 1e-4'}")
    return good


EXPERTS = {"count": 16, "active": 4, "width": 256, "router": '"softmax"'}


def start_experts(device, precision, layers=2):
    """`kha bench-step` of a mixture, its weights and batches the same on every device."""
    from bench.child import Child

    values = {**{f"model.experts.{key}": value for key, value in EXPERTS.items()},
              "model.hidden_size": 512, "model.num_hidden_layers": layers, "model.num_attention_heads": 8,
              "model.num_key_value_heads": 4, "model.head_dim": 64, "knock.setting": '"kha-mlp"',
              "train.context": 512, "train.batch": 4, "train.device": f'"{device}"',
              "train.precision": f'"{precision}"', "train.steps": 1000000}
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return Child(f"experts on {device}, {precision}", [str(KHA), "bench-step", *words, "--vocabulary", "4096"])


def check_experts(device, steps=10):
    """A mixture's step on the device: the loss and the gradient's norm beside the CPU's in float32, which
    products ran, and its time."""
    if not KHA.exists():
        print(f"\nexperts are not checked: no {KHA}; build kha with this torch, or set KHA")
        return True
    good = True
    print(f"\n{'experts, step':<16}{'products':<34}{'loss off':>10}{'norm off':>10}{'median ms':>11}")
    with start_experts("cpu", "fp32") as cpu:
        exact = cpu.ask("steps 1")
    # bfloat16 keeps 8 bits: losses differ by rounding, and near ties choose other experts.
    limits = {"fp32": (1e-4, 1e-3), "bf16": (1e-2, 1e-1)}
    for precision in ("fp32", "bf16") if device == "cuda" else ("fp32",):
        with start_experts(device, precision) as child:
            first = child.ask("steps 1")
            off = [abs(first[key][0] / exact[key][0] - 1) for key in ("loss", "norm")]
            bad = any(not value <= limit for value, limit in zip(off, limits[precision]))
            good = good and not bad
            took = statistics.median(child.ask(f"steps {steps}")["seconds"])
            print(f"{precision:<16}{child.ready['runs_on']['experts']:<34}{off[0]:>10.2g}{off[1]:>10.2g}"
                  f"{took * 1e3:>11.3f}{'   FAILED' if bad else ''}")
    return good


def main():
    device = sys.argv[1]
    torch.manual_seed(1)
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device here; `scripts/device-check cpu` runs the same checks on the CPU")
    torch.ops.load_library(os.environ["KHA_OPS_LIBRARY"])
    where = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    print(f"device: {where}; torch {torch.__version__}; knock maps: {torch.ops.kha.cpu_implementation() if device == 'cpu' else 'aten'}; TF32 {torch.backends.cuda.matmul.allow_tf32}")
    if not check_parity(device):
        sys.exit(1)
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
        compare(device, dtype)
    if not check_decode(device, 4096 if device == "cuda" else 256, 30 if device == "cuda" else 8):
        sys.exit(1)
    if not check_experts(device, 10 if device == "cuda" else 2):
        sys.exit(1)


if __name__ == "__main__":
    main()
