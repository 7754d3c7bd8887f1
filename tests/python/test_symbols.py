"""The object files of the CPU kernels, one set of instructions each: no shared symbol, no waste.

A function that two sets share would be linked once, compiled for one of them, and stop on a
processor that lacks its instructions. The hot loops are held to their instruction counts, since
the compiler left alone makes the same source run at a third of its speed.
"""

import json
import platform
import re
import shlex
import subprocess

import object_code
import pytest
from cpp_tests import ROOT, build_dir

# Registers of sums in the largest tile: with a row of b and a broadcast they fill all there are.
SUMS = {"avx2": 12, "avx512": 24}
TILE = re.compile(r"::tile<(\d+), \(.*?Side\)\d(?:, (\d+))?>")  # height, vectors across
# The C library's own, which run on every processor; the compiler itself calls for the first ones.
OF_THE_LIBRARY = {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_", "log", "sqrtf"}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has sets")


@pytest.fixture(params=object_code.SETS)
def objects(request):
    files = object_code.object_files(request.param)
    assert files, f"no object files of {request.param} in {build_dir()}: run `make build`"
    return request.param, files


def own(symbol, set_name):
    return symbol.name.startswith(f"_ZN3kha3cpu{len(set_name)}{set_name}")


def complaints(symbols, set_name):
    """Symbols that a file of this set must not have."""
    found = [f"defines {s.name} ({s.kind})" for s in symbols if s.is_shared and not own(s, set_name)]
    found += [f"unique {s.name}" for s in symbols if s.kind == "u"]
    return found + [f"needs {s.name}" for s in symbols if s.kind in "Uw" and not own(s, set_name)
                    and s.name not in OF_THE_LIBRARY]


def test_every_source_is_compiled_for_every_set(objects):
    set_name, files = objects
    sources = {source.name for source in (ROOT / "src/kernels/cpu/simd").glob("*.cpp")}
    assert {file.name.removesuffix(".o") for file in files} == sources, set_name


def test_symbols_stay_in_the_namespace_of_their_set(objects):
    set_name, files = objects
    found = [f"{file.name}: {line}" for file in files
             for line in complaints(object_code.symbols(file), set_name)]
    assert not found, "\n".join(found)


def instructions_of(files):
    return [each for file in files for function in object_code.disassembly(file).values()
            for each in function]


def test_no_instruction_of_a_wider_set(objects):
    """The scalar files run on every x86-64: no VEX form at all, whose names begin with v."""
    set_name, files = objects
    everything = instructions_of(files)
    assert everything
    wrong = {"scalar": lambda i: i.name.startswith("v") and i.name != "verr" or "ymm" in i.operands,
             "avx2": lambda i: re.search(r"zmm|mm(1[6-9]|2\d|3[01])\b|%k[0-7]", i.operands),
             "avx512": lambda i: False}[set_name]
    assert not [f"{i.name} {i.operands}" for i in everything if wrong(i)]
    wide = {"scalar": "%xmm", "avx2": "%ymm", "avx512": "%zmm"}[set_name]
    assert any(wide in i.operands for i in everything), f"no {wide} in the files of {set_name}"


@pytest.mark.parametrize("set_name", SUMS)
def test_the_probe_multiplies_in_registers(set_name):
    (file,) = [f for f in object_code.object_files(set_name) if f.name == "probe.cpp.o"]
    (function,) = [code for name, code in object_code.disassembly(file).items()
                   if "probe_multiply_add" in name]
    (loop,) = object_code.multiplying_loops(function)
    assert loop["fma"] >= 96, loop
    assert loop["fma"] + loop["other"] == sum(loop.values()) and loop["other"] < 8, loop


def wanted_of_tile(height, vectors, multiply_adds):
    """All from registers: a load for each vector of b, a broadcast for each row of a, no more."""
    steps = multiply_adds / (height * vectors)
    return {"folded fma": 0, "broadcast": steps * height, "load": steps * vectors, "store": 0,
            "vector spills": 0}


def check_tiles(functions):
    """(sums of the tiles checked, complaints) of every tile<height, side, vectors>."""
    sums, found = set(), []
    for name, code in functions.items():
        tile = TILE.search(name)
        if not tile:
            continue
        height, vectors = int(tile[1]), int(tile[2] or 2)
        sums.add(height * vectors)
        loops = object_code.multiplying_loops(code)
        for loop in loops:
            wanted = wanted_of_tile(height, vectors, loop["fma"])
            wrong = any(loop[kind] != number for kind, number in wanted.items())
            # One vector across (decoding): the addresses of so many rows do not fit AVX-512's loop.
            if wrong or loop["address spills"] > loop["fma"] / (8 if vectors > 1 else 2):
                found.append(f"{name}: has {loop}, wanted {wanted}")
        if not loops:
            found.append(f"{name}: no loop with multiply-adds")
    return sums, found


@pytest.mark.parametrize("set_name", SUMS)
def test_the_tiles_of_the_kernels_hold_nothing_but_their_work(set_name):
    everything = [check_tiles(object_code.disassembly(file))
                  for file in object_code.object_files(set_name)]
    sums = set().union(*(each for each, _ in everything))
    assert max(sums) == SUMS[set_name]
    found = [line for _, lines in everything for line in lines]
    assert not found, "\n".join(found)


def compile_as(set_name, text, folder, *changes):
    """An object file of `text`, with the flags of the set's files."""
    commands = json.loads((build_dir() / "compile_commands.json").read_text())
    entry = next(each for each in commands if f"kha_kernels_{set_name}.dir" in each["command"])
    words = shlex.split(entry["command"])
    flags = words[: words.index("-o")]
    source, made = folder / "own.cpp", folder / "own.o"
    source.write_text(text)
    subprocess.run([*flags, *changes, "-o", made, "-c", source], check=True, cwd=entry["directory"])
    return made


SOURCE = """
#include "kernels/cpu/simd/vector.h"
namespace kha::cpu::KHA_SET {
enum class Side { rows };
template <int M, Side side>
void tile(const float* a, const float* b, float* c, std::int64_t depth) {
  Vector sum[M][2];
  for (int i = 0; i < M; ++i) sum[i][0] = sum[i][1] = zero();
  for (; depth > 0; --depth, a += M, b += 2 * lanes) {
    Vector row[2] = {load(b), load(b + lanes)};
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      Vector value = all(a[i]);
      asm volatile("" : "+v"(value), "+v"(row[0]), "+v"(row[1]));
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) sum[i][j] = fma(value, row[j], sum[i][j]);
    }
  }
  for (int i = 0; i < M; ++i) store(c + 2 * i * lanes, sum[i][0]);
  for (int i = 0; i < M; ++i) store(c + (2 * i + 1) * lanes, sum[i][1]);
}
template void tile<HEIGHT, Side::rows>(const float*, const float*, float*, std::int64_t);
}
"""


@pytest.mark.parametrize("change, complaint", [
    (("HEIGHT", "6"), ""),
    (("HEIGHT", "9"), "'vector spills': [1-9]"),  # 18 sums do not fit 16 registers
    (("fma(value, row[j],", 'fma(value, (({asm volatile("" ::: "memory");}), load(b + j * lanes)),'),
     "'folded fma': [1-9]"),
])
def test_the_count_finds_what_it_looks_for(change, complaint, tmp_path):
    text = SOURCE.replace(*change).replace("HEIGHT", "6")
    sums, found = check_tiles(object_code.disassembly(compile_as("avx2", text, tmp_path)))
    assert sums == ({18} if change[1] == "9" else {12})
    assert re.search(complaint, "".join(found)) if complaint else not found, found


def test_the_symbol_check_finds_what_it_looks_for(tmp_path):
    shared = """
    #include <cstdlib>
    inline int both(int a) { static int kept = 0; return kept += a; }
    namespace kha::cpu::avx2 { int f(int a) { return both(a) + rand(); } }
    """
    found = complaints(object_code.symbols(compile_as("avx2", shared, tmp_path)), "avx2")
    assert any("_ZZ4bothiE4kept" in line for line in found) and "needs rand" in found
