"""`scripts/bench` and `make bench`: parity first, then times, then what they say."""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no idle workers beside the timings

PARTS = ("maps", "steps", "scaling", "head", "systems", "decode", "files")


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="kha beside torch eager, torch.compile and transformers, in one run. Nothing "
                    "is timed while a contender differs from the double composition (exit code 1).")
    parser.add_argument("--quick", action="store_true",
                        help="small shapes, few windows, no torch.compile: does it all work?")
    parser.add_argument("--only", action="append", choices=[*PARTS, "counts"], metavar="PART",
                        help=f"{', '.join(PARTS)} or counts (instructions of each kernel, under "
                             "valgrind); may be repeated")
    parser.add_argument("--threads", type=int, help="of all contenders (default: all cores)")
    parser.add_argument("--rounds", type=int, help="windows or steps of each contender")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes as JSON")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), metavar="DIR",
                        help="folder of bench.json, bench.png, bench.svg (default: %(default)s)")
    parser.add_argument("--markdown", action="store_true",
                        help="print the tables as Markdown")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE",
                        help="print an earlier result instead of measuring")
    parser.add_argument("--into", type=Path, metavar="DOCUMENT",
                        help="put the tables into docs/performance.md, at its mark of the result's "
                             "instruction set")
    parser.add_argument("--write", action="store_true",
                        help="with --only counts: make the present counts the expected ones")
    options = parser.parse_args(arguments)
    options.parts = options.only or list(PARTS[:2] if options.quick else PARTS) + (
        ["head", "decode", "files"] if options.quick else [])
    return options


def write(result, options):
    from bench import picture

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.json or options.out / "bench.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    paths = [file, *picture.write(result, options.out)]
    print(f"\nwritten: {', '.join(map(str, paths))}")


def show(result, options):
    """Prints the report, or puts it into a document. 2 where the document has no place for it."""
    from bench import report

    if not options.into:
        print(report.text(result, options.markdown))
        return 0
    try:
        options.into.write_text(report.insert(options.into.read_text(), result))
    except ValueError as error:
        print(f"error: {options.into}: {error}", file=sys.stderr)
        return 2
    print(f"written: {options.into}")
    return 0


def main(arguments=None, contenders=None):
    """`contenders` replaces those of the maps, so that a test can bring a wrong one."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    if options.source:
        return show(json.loads(options.source.read_text()), options)
    if "counts" in options.parts:
        from bench import counts

        options.parts.remove("counts")
        code = counts.main(options.write)
        if code or not options.parts:
            return code

    from bench.runs import Refused, run_all

    try:
        result = run_all(options, arguments, contenders)
    except Refused as refused:
        print(f"parity is red, so nothing is timed:\n  " + "\n  ".join(refused.complaints),
              file=sys.stderr)
        return 1
    code = show(result, options)
    write(result, options)
    return code


if __name__ == "__main__":
    sys.exit(main())
