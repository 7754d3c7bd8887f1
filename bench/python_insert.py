"""What maps cost in somebody's own training loop: a Qwen3-type model of transformers, plain and
with maps inserted, side by side in one process; the maps alone against the same maps as torch
modules; what the import costs.

    .venv/bin/python bench/python_insert.py [--device cuda] [--rounds 20] [--json FILE]

Rounds are interleaved (plain, kha-mlp, kha-linear, in changing order); ratios are paired within a
round, and the 95 % interval is that of their median by bootstrap. On the CPU a step is also
measured as time of the process's threads (the machine may be shared), and memory is counted by the
allocations of torch's profiler; on a device by its allocator.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import knocking_heads as kh  # noqa: E402
from python_maps import compare_maps  # noqa: E402
from python_timing import interval, timed  # noqa: E402

BARS = {"kha-mlp step": 1.03, "kha-mlp memory": 1.03, "kha-linear step": 1.01,
        "kha-linear memory": 1.03, "mlp map": 1.4, "mlp map forward": 1.4, "import": 0.2}
SIZES = {
    "small": dict(hidden_size=512, intermediate_size=1536, num_hidden_layers=4,
                  num_attention_heads=8, num_key_value_heads=2, head_dim=128, vocab_size=4096),
    "0.6b": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                 num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936),
}


def sizes_of(options):
    sizes = dict(SIZES[options.size])
    if options.layers:
        sizes["num_hidden_layers"] = options.layers
    return sizes


def make_model(setting, options):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(**sizes_of(options), tie_word_embeddings=True)
    model = Qwen3ForCausalLM(config).to(options.device, getattr(torch, options.dtype)).train()
    return kh.insert(model, setting) if setting != "plain" else model


class Contender:
    """One model with its optimiser; `step` trains on the same ids every time."""

    def __init__(self, setting, options):
        self.options = options
        self.model = make_model(setting, options)
        self.optimizer = torch.optim.AdamW(kh.parameter_groups(self.model), lr=1e-5, fused=True)
        generator = torch.Generator().manual_seed(1)
        vocabulary = SIZES[options.size]["vocab_size"]
        self.ids = torch.randint(vocabulary, (options.batch, options.context),
                                 generator=generator).to(options.device)

    def step(self):
        loss = self.model(self.ids, labels=self.ids, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def peak_bytes(function, options):
    """The most memory that is held at once over what was held before."""
    if options.device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    from torch.profiler import ProfilerActivity, profile

    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, profile_memory=True, acc_events=True) as profiled:
        function()
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def check_start(contenders):
    """No figure without parity: the logits of the models are one."""
    with torch.no_grad():
        logits = {name: each.model(each.ids, use_cache=False).logits
                  for name, each in contenders.items()}
    for name, value in logits.items():
        if not torch.equal(value, logits["plain"]):
            sys.exit(f"{name}: the logits differ from the plain model's, so nothing is measured")


def compare_steps(options):
    names = ["plain", "kha-mlp", "kha-linear"]
    contenders = {name: Contender(name, options) for name in names}
    check_start(contenders)
    for each in contenders.values():
        each.step()
    seconds = {name: [] for name in names}
    for number in range(options.rounds):
        order = names[number % 3:] + names[:number % 3]
        for name in order:
            seconds[name].append(timed(contenders[name].step, options))
    memory = {name: peak_bytes(each.step, options) + parameter_bytes(each.model) * 3
              for name, each in contenders.items()}
    rows = {}
    for name in names[1:]:
        for clock, index in (("step", 0), ("step, thread time", 1)):
            rows[f"{name} {clock}"] = interval([each[index] for each in seconds[name]],
                                               [each[index] for each in seconds["plain"]])
        rows[f"{name} memory"] = {"median": memory[name] / memory["plain"]}
    rows["plain step seconds"] = {"median": statistics.median(each[0] for each in seconds["plain"])}
    return rows


def parameter_bytes(model):
    """Weights; gradients and the two moments have the same size each, gradients are counted in the
    peak of a step."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def import_seconds(rounds=5):
    """What `import knocking_heads` adds to `import torch`: processor time of a fresh process."""
    program = ("import time, torch; begin = time.process_time(); wall = time.perf_counter();"
               f"import sys; sys.path.insert(0, {str(Path(kh.__file__).parents[1])!r});"
               "import knocking_heads;"
               "print(time.perf_counter() - wall, time.process_time() - begin)")
    found = [list(map(float, subprocess.run([sys.executable, "-c", program], capture_output=True,
                                            text=True, check=True).stdout.split()))
             for _ in range(rounds)]
    return {"import": {"median": min(each[0] for each in found)},
            "import, processor time": {"median": statistics.median(each[1] for each in found)}}


def judge(name, row):
    """The median against the bar, and whether the interval passes it."""
    bar = BARS.get(re.sub(r",.*", "", name))
    if bar is None:
        return ""
    gain = name.startswith("mlp map")
    worst = row.get("low" if gain else "high", row["median"])
    reaches = (lambda value: value >= bar) if gain else (lambda value: value <= bar)
    verdict = "reached" if reaches(row["median"]) else "MISSED"
    if reaches(row["median"]) and not reaches(worst):
        verdict += ", its interval passes it"
    return f"at {'least' if gain else 'most'} {bar}: {verdict}"


def report(rows):
    for name, row in rows.items():
        ends = f" [{row['low']:.4f}, {row['high']:.4f}]" if "low" in row else ""
        best = f"best {row['best']:.4f}" if "best" in row else ""
        print(f"{name:<44} {row['median']:.4f}{ends:<20} {best:<12} {judge(name, row)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the size has")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="of the CPU; 0: torch's choice")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = {**compare_maps(SIZES[options.size], options), **import_seconds(),
            **compare_steps(options)}
    print(f"{options.size} model of {sizes_of(options)['num_hidden_layers']} layers, "
          f"{options.device}, {options.dtype}, {options.batch} x {options.context} tokens, "
          f"{options.rounds} rounds, torch {torch.__version__}, "
          f"maps: {torch.ops.kha.cpu_implementation()}")
    report(rows)
    if options.json:
        options.json.write_text(json.dumps({"options": {**vars(options), "json": None},
                                            "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
