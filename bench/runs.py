"""The parts of a run in their order: all parity first, then everything that is timed."""

import os
import sys

from bench import shapes
from bench.progress import Progress


class Refused(Exception):
    """Some contender is wrong; nothing may be timed."""

    def __init__(self, complaints):
        super().__init__("; ".join(complaints))
        self.complaints = complaints


def say(text):
    print(text, file=sys.stderr, flush=True)


def check_maps(options, contenders):
    from bench import contenders as peers
    from bench import maps

    cases = shapes.quick_map_cases() if options.quick else shapes.map_cases()
    return maps.check_parity(cases, contenders or peers.CONTENDERS, not options.quick,
                             Progress("parity of the maps", len(cases)))


def check_steps(threads):
    from bench import steps

    say("parity of the step: kha and transformers against transformers in float64")
    complaints = steps.check_peer_parity(shapes.QUICK_PEER_STEP, threads)
    return complaints + steps.check_map_parity(shapes.QUICK_MAPS_STEP, threads,
                                               shapes.map_variants)


def check_head():
    from bench import head_loss

    say("parity of head and loss: " + ", ".join(head_loss.available()))
    return head_loss.check_parity(shapes.HeadCase(257, 64, 1000))


def check_all(options, threads, contenders):
    """What may be timed: the prepared maps. Raises Refused."""
    ready, complaints = [], []
    if "maps" in options.parts:
        complaints, ready = check_maps(options, contenders)
    if {"steps", "scaling"} & set(options.parts):
        complaints += check_steps(threads)
    if "head" in options.parts:
        complaints += check_head()
    if complaints:
        raise Refused(complaints)
    say("parity: every contender agrees with the double composition")
    return ready


def run_maps(options, threads, ready):
    """As installed, then the larger cases with freed memory kept, which stays for good."""
    from bench import maps

    counts = sorted({1, threads}, reverse=True)
    rounds = options.rounds or (3 if options.quick else 12)
    window_s = 0.004 if options.quick else maps.WINDOW_S
    parts = [maps.measure(ready, counts, rounds, Progress("maps", 1), "installed", window_s)]
    large = [each for each in ready if each[0].compiled]
    if large:
        maps.keep_freed_memory()
        parts.append(maps.measure(large, [threads], rounds, Progress("maps, memory kept", 1),
                                  "kept", window_s))
    return parts


def checked(outcome):
    complaints, rows = outcome
    if complaints:
        raise Refused(complaints)
    return rows


def run_steps(options, threads):
    from bench import steps

    rounds = options.rounds or (4 if options.quick else 10)
    maps_case = shapes.QUICK_MAPS_STEP if options.quick else shapes.MAPS_STEP
    peer_case = shapes.QUICK_PEER_STEP if options.quick else shapes.PEER_STEP
    peer = steps.measure_peer(peer_case, threads, rounds, Progress("step", 3 * rounds))
    return {"peer": checked(peer),
            "maps": steps.measure_maps(maps_case, threads, rounds,
                                       Progress("step with maps", 3 * rounds),
                                       shapes.map_variants)}


def run_scaling(options, threads):
    from bench import steps

    rounds = max(3, (options.rounds or 8) // 2)
    tokens, heads = shapes.scaling_in_tokens(), shapes.scaling_in_heads()
    progress = Progress("scaling", 2 * rounds * (len(tokens) + len(heads)))
    token_rows = [row for case in tokens for row in
                  checked(steps.measure_peer(case, threads, rounds, progress, kept=False))]
    head_rows = [row for case in heads for row in
                 steps.measure_maps(case, threads, rounds, progress, shapes.mlp_variants)]
    return {"tokens": token_rows, "heads": head_rows}


def run_head(options):
    from bench import head_loss

    cases = shapes.quick_head_cases() if options.quick else shapes.head_cases()
    return head_loss.measure(cases, Progress("head and loss",
                                             len(cases) * len(head_loss.available())))


def run_systems(options, threads):
    from bench import steps

    rounds = options.rounds or (3 if options.quick else 10)
    cases = shapes.system_cases(shapes.QUICK_MAPS_STEP if options.quick else shapes.SYSTEM_STEP)
    peers = sum(1 + len(steps.SYSTEM_PEERS[case.attention]) for case in cases)
    progress = Progress("step of each attention", rounds * peers)
    return [row for case in cases
            for row in checked(steps.measure_system(case, threads, rounds, progress))]


def run_decode(options, threads):
    from bench import decode

    rounds = options.rounds or (3 if options.quick else 12)
    case = shapes.QUICK_DECODE if options.quick else shapes.DECODE
    return checked(decode.measure(case, threads, rounds,
                                  Progress("decode", rounds * len(decode.RUNS))))


def run_files(options):
    from bench import files

    case = shapes.QUICK_FILES if options.quick else shapes.FILES
    rounds = options.rounds or (3 if options.quick else 10)
    return files.measure(case, rounds, Progress("files", 16 * rounds))


def run_all(options, arguments, contenders=None):
    """The result as it is written to JSON."""
    import knocking_heads  # noqa: F401  (loads the operators)
    import torch

    from bench import machine

    threads = options.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    facts = machine.facts(torch.ops.kha, threads, arguments)
    machine.warn_of_load(facts)
    ready = check_all(options, threads, contenders)
    result = {"machine": facts, "quick": options.quick, "parity": "green"}
    if "maps" in options.parts:
        result["maps"] = run_maps(options, threads, ready)
    del ready
    if "steps" in options.parts:
        result.setdefault("steps", {}).update(run_steps(options, threads))
    if "scaling" in options.parts:
        result.setdefault("steps", {}).update(run_scaling(options, threads))
    if "systems" in options.parts:
        result.setdefault("steps", {})["systems"] = run_systems(options, threads)
    if "head" in options.parts:
        result["head"] = run_head(options)
    if "decode" in options.parts:
        result["decode"] = run_decode(options, threads)
    if "files" in options.parts:
        result["files"] = run_files(options)
    return result
