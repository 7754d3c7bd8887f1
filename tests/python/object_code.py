"""Reads object files: the symbols they define, and what the loops of a function are made of."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cpp_tests import build_dir

SETS = ("scalar", "avx2", "avx512")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#.*)?$")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")


def object_files(set_name: str) -> list[Path]:
    """Those of src/kernels/cpu/simd, compiled for the set."""
    folder = build_dir() / "CMakeFiles" / f"kha_kernels_{set_name}.dir"
    return sorted(folder.rglob("*.o"))


@dataclass(frozen=True)
class Symbol:
    name: str  # mangled
    kind: str  # nm's letter: upper case is global, W and V weak, u unique, U undefined

    @property
    def is_shared(self) -> bool:
        """Whether the linker may put another file's copy in its place, or it in another's."""
        return self.kind.isupper() and self.kind != "U" or self.kind == "u"


def symbols(file: Path) -> list[Symbol]:
    listed = subprocess.run(["nm", file], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in listed.splitlines()]
    return [Symbol(each[-1], each[-2]) for each in words if len(each) >= 2]


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str

    @property
    def reads_memory(self) -> bool:
        """Any operand in memory but, as in AT&T's order, a last one that is written."""
        sources = self.operands.rsplit(",", 1)[0] if ")" not in self.operands[-1:] else \
            self.operands
        return "(" in sources

    @property
    def uses_stack(self) -> bool:
        """By the stack pointer; rbp is an ordinary register in optimised code."""
        return "(%rsp" in self.operands

    @property
    def kind(self) -> str:
        if re.match(r"vf(n?m)(add|sub)", self.name):
            return "folded fma" if self.reads_memory else "fma"
        if self.name.startswith("vbroadcast"):
            return "broadcast"
        if self.name.startswith(("vmov", "mov")) and "mm" in self.operands and "(" in self.operands:
            return "store" if self.operands.endswith(")") else "load"
        return "other"


def disassembly(file: Path) -> dict[str, list[Instruction]]:
    """The instructions of every function, by its demangled name."""
    listed = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", file],
                            capture_output=True, text=True, check=True).stdout
    functions, current = {}, []
    for line in listed.splitlines():
        if start := FUNCTION.match(line):
            current = functions.setdefault(start.group(1), [])
        elif found := INSTRUCTION.match(line):
            current.append(Instruction(int(found[1], 16), found[2], found[3]))
    return functions


def jump_target(instruction: Instruction) -> int | None:
    target = re.match(r"([0-9a-f]+) ", instruction.operands + " ")
    return int(target[1], 16) if instruction.name.startswith("j") and target else None


def blocks_of(function: list[Instruction]) -> tuple[list[list[Instruction]], list[set[int]]]:
    """Basic blocks in order of address, and each one's successors."""
    addresses = {each.address for each in function}
    starts = {function[0].address}
    for this, following in zip(function, function[1:] + [None]):
        if this.name.startswith(("j", "ret")):
            starts |= {jump_target(this)} & addresses
            starts |= {following.address} if following else set()
    blocks = []
    for each in function:
        if each.address in starts:
            blocks.append([])
        blocks[-1].append(each)
    number = {block[0].address: i for i, block in enumerate(blocks)}
    successors = []
    for i, block in enumerate(blocks):
        last, to = block[-1], set()
        if (target := jump_target(last)) in number:
            to.add(number[target])
        if not last.name.startswith(("jmp", "ret")) and i + 1 < len(blocks):
            to.add(i + 1)
        successors.append(to)
    return blocks, successors


def reachable(start: int, successors: dict[int, set[int]]) -> set[int]:
    """The nodes that a walk of one step or more from `start` comes to."""
    seen, waiting = set(), list(successors[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += successors[node]
    return seen


def cycles(nodes: set[int], successors: list[set[int]]) -> list[set[int]]:
    """Innermost sets of blocks that lead back to one another: a set without its entry, where
    that still leads back to itself, is a loop inside it."""
    inside = {node: successors[node] & nodes for node in nodes}
    reach = {node: reachable(node, inside) for node in nodes}
    rings = {frozenset(o for o in reach[n] if n in reach[o]) for n in nodes if n in reach[n]}
    found = []
    for ring in rings:
        entries = {to for node in range(len(successors)) if node not in ring
                   for to in successors[node] & ring} or {min(ring)}
        found += cycles(set(ring) - entries, successors) or [set(ring)]
    return found


def innermost_loops(function: list[Instruction]) -> list[list[Instruction]]:
    blocks, successors = blocks_of(function)
    return [[each for block in sorted(ring) for each in blocks[block]]
            for ring in cycles(set(range(len(blocks))), successors)]


def counts(instructions: list[Instruction]) -> dict[str, int]:
    """Instructions by kind; besides, of those that touch the stack, how many move vectors (in a
    loop these are spills) and how many do not (addresses that found no register)."""
    stack = [each for each in instructions if each.uses_stack]
    vectors = sum("mm" in each.operands for each in stack)
    result = {"fma": 0, "folded fma": 0, "broadcast": 0, "load": 0, "store": 0, "other": 0,
              "vector spills": vectors, "address spills": len(stack) - vectors}
    for each in instructions:
        result[each.kind] += 1
    return result


def multiplying_loops(function: list[Instruction]) -> list[dict[str, int]]:
    """Counts of the innermost loops that hold multiply-adds."""
    found = [counts(loop) for loop in innermost_loops(function)]
    return [each for each in found if each["fma"] + each["folded fma"]]
