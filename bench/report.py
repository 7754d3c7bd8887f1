"""A result as tables: plain for a terminal, pipes for docs/performance.md."""

from bench.targets import judge_all, losing

NAMES = {"forward": "forward", "both": "forward + backward"}


def table(head, rows, markdown):
    """Columns aligned to the right but for the first; the head is a row of names."""
    if markdown:
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def ratio_text(ratio):
    return f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio else ""


def megabytes(count):
    return f"{count / 1e6:.0f}"


def map_groups(part):
    """{(case, pass, threads): {contender: row}}, in the order of measuring."""
    groups = {}
    for row in part["rows"]:
        groups.setdefault((row["case"], row["pass"], row["threads"]), {})[row["contender"]] = row
    return groups


def map_table(part, markdown):
    head = ["map", "pass", "threads", "us", "GFLOP/s", "share", "eager share", "compile share",
            "against eager", "against compile", "saved / x", "eager saves"]
    rows = []
    for (case, run, threads), named in map_groups(part).items():
        mine, eager = named["ours"], named["torch eager"]
        compiled = named.get("torch.compile", {})
        saved = [f"{row['saved_bytes'] / row['x_bytes']:.1f}" if run == "both" else ""
                 for row in (mine, eager)]
        rows.append([case, NAMES[run], str(threads), f"{mine['median_s'] * 1e6:.1f}",
                     f"{mine['best_flops_per_s'] / 1e9:.1f}", f"{mine['share_of_ceiling']:.3f}",
                     f"{eager['share_of_ceiling']:.3f}",
                     f"{compiled['share_of_ceiling']:.3f}" if compiled else "",
                     ratio_text(eager.get("ours_is_faster")),
                     ratio_text(compiled.get("ours_is_faster")), *saved])
    return table(head, rows, markdown)


def step_table(rows, markdown):
    head = ["step", "contender", "s", "tokens/s", "time ratio", "peak MB", "peak ratio",
            "faults a step"]
    cells = [[row["case"], row["contender"], f"{row['median_s']:.3f}", f"{row['tokens_per_s']:.0f}",
              f"{ratio_text(row['time_ratio'])} of {row['against']}" if "against" in row else "1",
              megabytes(row["peak_bytes"]),
              f"{row['peak_ratio']:.3f}" if "peak_ratio" in row else "1",
              f"{row['faults_median']:.0f}, at most {row['faults_most']}"] for row in rows]
    return table(head, cells, markdown)


def head_table(rows, markdown):
    head = ["head and loss", "contender", "peak MB", "must hold MB", "ratio"]
    return table(head, [[row["case"], row["contender"], megabytes(row["peak_bytes"]),
                         megabytes(row["needed_bytes"]), f"{row['peak_to_needed']:.2f}"]
                        for row in rows], markdown)


def decode_table(rows, markdown):
    head = ["decode step of one MLA layer", "ms", "best ms", "tokens/s", "faster than formed anew",
            "cache MB", "bytes a token"]
    return table(head, [[f"{row['contender']}, {row['form']}", f"{row['median_s'] * 1e3:.2f}",
                         f"{row['best_s'] * 1e3:.2f}", f"{row['batch'] / row['median_s']:.0f}",
                         ratio_text(row["faster_than_formed"]), f"{row['cache_bytes'] / 1e6:.1f}",
                         f"{row['cache_bytes_a_token']:.0f}"] for row in rows], markdown)


def files_table(rows, markdown):
    head = ["files", "contender", "ms", "best ms", "against", "faster", "peak MB", "faults"]
    return table(head, [[row["case"], row["contender"], f"{row['median_s'] * 1e3:.2f}",
                         f"{row['best_s'] * 1e3:.2f}", row["against"], ratio_text(row["faster"]),
                         megabytes(row["peak_bytes"]), f"{row['faults']:.0f}"] for row in rows],
                 markdown)


def target_table(result, markdown):
    rows = []
    for each in judge_all(result):
        value = "" if each["value"] is None else f"{each['value']:.3f}".rstrip("0").rstrip(".")
        rows.append([each["target"], each["bar"], value, each["state"]])
    return table(["must reach", "bar", "measured", ""], rows, markdown)


STEP_TITLES = {
    "maps": "The training step with and without maps",
    "peer": "The training step beside transformers",
    "tokens": "Scaling in tokens, beside transformers",
    "heads": "Scaling in heads, with the mlp map",
    "systems": "The training step of each attention beside the same maths in torch",
}


def sections(result, markdown):
    """(title, text) of everything that was measured."""
    for part in result.get("maps", []):
        ceilings = ", ".join(f"{float(c) / 1e9:.0f} GFLOP/s on {t} thread{'s' * (t != '1')}"
                             for t, c in part["ceiling_flops_per_s"].items())
        title = f"Maps, memory as {part['allocator']} (ceiling {ceilings}; copy " \
                f"{part['copy_bytes_per_s'] / 1e9:.0f} GB/s; {part['rounds']} windows each)"
        yield title, map_table(part, markdown)
    for key, title in STEP_TITLES.items():
        if rows := result.get("steps", {}).get(key):
            yield f"{title} ({len(rows[0]['seconds'])} steps each)", step_table(rows, markdown)
    if result.get("head"):
        yield "Peak memory of head and loss", head_table(result["head"], markdown)
    if rows := result.get("decode"):
        title = f"Decoding behind {rows[0]['case']} ({len(rows[0]['seconds'])} steps each)"
        yield title, decode_table(rows, markdown)
    if rows := result.get("files"):
        yield f"Files ({len(rows[0]['seconds'])} rounds)", files_table(rows, markdown)
    if not result.get("quick"):
        yield "Must reach", target_table(result, markdown)


def machine_line(machine):
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, "
            f"{machine['instruction_set']} (kernels: {machine['cpu_implementation']}), torch "
            f"{machine['torch']}, commit {machine['commit']}, {machine['date']}")


def insert(document, result):
    """The document with this result's tables between the marks of its instruction set. Raises
    ValueError where it has no such marks."""
    name = result["machine"]["instruction_set"]
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    if document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"it needs the lines `{begin.strip()}` and `{end}`, each once")
    head, rest = document.split(begin)
    return head + begin + text(result, markdown=True) + "\n" + end + rest.split(end)[1]


def text(result, markdown=False):
    """The whole report. Times are medians; shares of the ceiling take the best window that another
    supports; ratios are medians of pairs with a 95 % interval, above 1 where kha is faster."""
    title = "### " if markdown else ""
    quote = "`" * markdown
    lines = [machine_line(result["machine"]) + (":" if markdown else ""),
             quote + result["machine"]["command"] + quote]
    for name, body in sections(result, markdown):
        lines += ["", title + name, "", body] if markdown else ["", name, body]
    behind = losing(result)
    lines += ["", title + "Where kha is behind"] + [""] * markdown
    lines += [f"{'- ' if markdown else '  '}{each}" for each in behind] or ["  nowhere"]
    return "\n".join(lines)
