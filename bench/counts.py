"""Instructions of each kernel, counted by callgrind, beside those that counts.json expects.

A count moves with no machine and no load, so that it shows what a time would hide. It belongs to
one compiler: with another there is nothing to compare. AVX-512 runs under no valgrind; of its
tiles the instructions of the object code are counted.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.machine import ROOT

FILE = ROOT / "bench" / "counts.json"
COUNTED_SETS = ("scalar", "avx2")
TOLERANCE = 0.02


class Unavailable(Exception):
    """What is missing for a count, in a sentence."""


def build_dir():
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from cpp_tests import build_dir as of_tests

    return of_tests()


def compiler():
    """Kind and version of the compiler that the build used, as CMake found them."""
    (file,) = build_dir().glob("CMakeFiles/*/CMakeCXXCompiler.cmake")
    found = dict(re.findall(r'set\(CMAKE_CXX_COMPILER_(ID|VERSION) "([^"]*)"\)', file.read_text()))
    return f"{found['ID']} {found['VERSION']}"


def usable(set_name):
    program = build_dir() / "tests" / "kha_count_kernels"
    if not program.is_file():
        raise Unavailable(f"{program} is not built")
    return subprocess.run([program, set_name], capture_output=True).returncode == 0


def parse_annotation(text, set_name):
    """{kernel: instructions with those of what it calls} of callgrind_annotate's lines."""
    line = re.compile(rf"^\s*([\d,]+) \([^)]*\)\s+\S*?:kha::cpu::{set_name}::(\w+)\(", re.M)
    return {name: int(count.replace(",", "")) for count, name in line.findall(text)}


def run_callgrind(set_name):
    """Counts of one run of every kernel of the set. Raises Unavailable."""
    if not shutil.which("valgrind"):
        raise Unavailable("valgrind is not installed")
    if not usable(set_name):
        raise Unavailable(f"this processor has no {set_name}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                        build_dir() / "tests" / "kha_count_kernels", set_name],
                       capture_output=True, text=True, check=True)
        text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
                              capture_output=True, text=True, check=True).stdout
    return only_kernels(parse_annotation(text, set_name))


def only_kernels(found):
    """Without what the kernels call and what only gives sizes."""
    return {name: count for name, count in sorted(found.items())
            if name.startswith(("knock_", "few_", "pack", "sum_partials", "rms_norm", "norm_rope",
                                "swiglu", "weighted_swiglu", "add_rows",
                                "head_loss", "causal_attention",
                                "square_sum"))
            and not name.endswith("_size")}


def in_words(loop):
    return ", ".join(f"{count} {kind}" for kind, count in loop.items() if count)


def tiles(set_name="avx512"):
    """{file, height, vectors and side of a tile: its loops in words} of the object code."""
    build_dir()
    import object_code

    found = {}  # each kind of loop once: the compiler may copy a function
    for file in object_code.object_files(set_name):
        for name, code in object_code.disassembly(file).items():
            if tile := re.search(r"::tile<(\d+), \(.*?Side\)(\d)(?:, (\d+))?>", name):
                height, side, vectors = tile.groups("2")
                key = f"{file.name.removesuffix('.cpp.o')} {height} x {vectors}, side {side}"
                loops = object_code.multiplying_loops(code)
                found.setdefault(key, set()).update(in_words(loop) for loop in loops)
    return {key: sorted(loops) for key, loops in sorted(found.items())}


def measure():
    """What counts.json holds, and sentences about what could not be counted."""
    counts, missing = {}, []
    for set_name in COUNTED_SETS:
        try:
            counts[set_name] = run_callgrind(set_name)
        except Unavailable as why:
            missing.append(f"{set_name}: not counted: {why}")
    return {"compiler": compiler(), "counts": counts, "avx512 tiles": tiles()}, missing


def differences(found, expected, tolerance=TOLERANCE):
    """Sentences about kernels that are new, gone, or moved by more than the tolerance."""
    lines = []
    for name in sorted(found.keys() | expected.keys()):
        now, before = found.get(name), expected.get(name)
        if now is None or before is None:
            lines.append(f"{name}: {'no longer counted' if now is None else 'not yet expected'}")
        elif abs(now - before) > tolerance * before:
            lines.append(f"{name}: {now:,} instructions, expected {before:,} ({now / before:.3f})")
    return lines


def main(write):
    """Prints the counts beside the expected ones; 1 where they differ."""
    found, missing = measure()
    for line in missing:
        print(line)
    if write:
        if missing:
            print("nothing is written: the expected counts need every set")
            return 1
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        print(f"written: {FILE.relative_to(ROOT)}")
        return 0
    expected = json.loads(FILE.read_text())
    bad = []
    for set_name, counts in found["counts"].items():
        before = expected["counts"].get(set_name, {})
        for name, count in counts.items():
            print(f"{set_name:8}{name:26}{count:>12,}{before.get(name, 0):>12,} expected")
        bad += [f"{set_name} {line}" for line in differences(counts, before)]
    if found["compiler"] != expected["compiler"]:
        print(f"not judged: built by {found['compiler']}, expected counts are of "
              f"{expected['compiler']}")
        return 0
    if found["avx512 tiles"] != expected["avx512 tiles"]:
        bad.append("the AVX-512 tiles' object code changed")
    for line in bad:
        print(f"changed: {line}")
    print("counts as expected" if not bad else
          "if this is meant: scripts/bench --only counts --write")
    return 1 if bad else 0
