"""The results as docs/NAME.md. Every sentence follows from the figures, or says what was done."""

import math
import statistics

from evidence.judge import final_losses, judge, main_runs, whole

MARKS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def count(number):
    """Of parameters; a run whose checkpoint was removed no longer has it."""
    return "-" if number is None else f"{number:,}"


def tokens_in_words(tokens):
    return f"{tokens / 1e6:.2f} M"


def judged(plan, results):
    return [(ordering, judge(results, ordering.lower, ordering.higher))
            for ordering in plan.orderings]


def interval_in_words(interval):
    if interval is None:
        return "no pair"
    if interval.pairs == 1:
        return f"{interval.mean:+.4f} (one pair, no interval)"
    return str(interval)


def in_a_word(judgement):
    """The verdict, or that there is nothing yet to give one on."""
    return judgement.verdict if judgement.pairs or judgement.diverged else "not run"


def rates_in_words(results, judgement):
    """Learning rates of both arms, the lower one's first; one where they are the same."""
    rates = [next((f"{run['rate']:g}" for run in main_runs(results, arm).values() if run["rate"]),
                  "-") for arm in (judgement.lower, judgement.higher)]
    return rates[0] if rates[0] == rates[1] else " and ".join(rates)


def summary(judgements):
    """What may be said in one paragraph."""
    parts = []
    for word in ("reproduced", "opposite", "not decided", "not run"):
        names = [f"{o.lower} below {o.higher}" for o, j in judgements if in_a_word(j) == word]
        if names:
            parts.append(f"**{word}** {len(names)}: {'; '.join(names)}")
    return (f"Of {len(judgements)} orderings of the paper: " + ". ".join(parts) + ".")


def orderings_table(judgements, results):
    rows = [[f"{o.lower} < {o.higher}", o.about, o.source, rates_in_words(results, j), len(j.pairs),
             interval_in_words(j.interval), f"**{in_a_word(j)}**"] for o, j in judgements]
    return table(["reported", "about", "where", "learning rates", "pairs",
                  "difference (95 % interval)", "verdict"], rows)


def curve_at(curve, share):
    """The interval at the evaluation nearest to a share of the run."""
    wanted = share * curve[-1][0]
    return min(curve, key=lambda point: abs(point[0] - wanted))


def tokens_table(judgements):
    longest = max((j.curve for _, j in judgements), key=lambda curve: curve[-1][0] if curve else 0)
    # Of shares that fall on one evaluation the last.
    shares = {curve_at(longest, share)[0]: share for share in MARKS if longest}.values()
    rows = []
    for ordering, judgement in judgements:
        if len(judgement.pairs) > 1:
            points = [curve_at(judgement.curve, share)[1] for share in shares]
            rows.append([f"{ordering.lower} < {ordering.higher}",
                         *(f"{p.mean:+.4f} ± {p.high - p.mean:.4f}" for p in points)])
    if not rows:
        return "No ordering has two pairs yet."
    marks = [tokens_in_words(curve_at(longest, share)[0]) for share in shares]
    return table(["reported", *marks], rows)


def arms_table(plan, results):
    rows = []
    for arm in plan.arms:
        losses = final_losses(results, arm)
        if not losses:
            continue
        run = next(run for run in main_runs(results, arm).values() if whole(run))
        scatter = f"{statistics.stdev(losses.values()):.4f}" if len(losses) > 1 else "one run"
        rows.append([arm, count(run["parameters"]), count(run["map_parameters"]),
                     f"{run['rate']:g}", len(losses), f"{statistics.mean(losses.values()):.4f}",
                     scatter])
    return table(["arm", "parameters", "in maps", "learning rate", "seeds", "validation loss",
                  "scatter over seeds"], rows)


def sweep_ends(results):
    """{arm: {rate: mean of the last losses over the sweep's seeds, None where one is not whole}}"""
    ends = {}
    for run in results["runs"]:
        if run["sweep"]:
            loss = run["points"][-1][1] if whole(run) else None
            ends.setdefault(run["arm"], {}).setdefault(run["rate"], []).append(loss)
    return {arm: {rate: None if None in of else statistics.mean(of) for rate, of in rates.items()}
            for arm, rates in ends.items()}


def best_of(ends):
    known = {rate: loss for rate, loss in ends.items() if loss is not None}
    return min(known, key=known.get, default=None)


def sweep_table(results):
    rows = []
    for arm, ends in sweep_ends(results).items():
        cells = {rate: "-" if loss is None else f"{loss:.4f}" for rate, loss in ends.items()}
        if (best := best_of(ends)) is not None:
            cells[best] = f"**{cells[best]}**"
        rows.append([arm, *cells.values()])
        rates = list(ends)
    return table(["arm", *(f"{rate:g}" for rate in rates)], rows)


def edge_note(results):
    """Names arms whose best rate is the lowest or highest that was tried."""
    at_edge = [f"{arm} ({best_of(ends):g})" for arm, ends in sweep_ends(results).items()
               if best_of(ends) in (min(ends), max(ends))]
    if not at_edge:
        return "Every arm's best rate has a worse one on either side."
    return ("At the edge of the sweep, so that a better rate may lie outside: "
            + ", ".join(at_edge) + ".")


def left_out(results, judgements):
    notes = list(dict.fromkeys(note for _, j in judgements for note in j.left_out))
    states = [run["state"] for run in results["runs"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    lines = [f"Runs of the plan: {counts}."]
    return "\n".join(lines + [f"- {note}" for note in notes if "has no run" not in note
                              and "not finished" not in note])


def what_was_run(plan, results):
    c, facts = results["config"], results["facts"]
    per_step = c["train.context"] * c["train.batch"] * c["train.accumulate"]
    tokens = per_step * c["train.steps"]
    parameters = next((run["parameters"] for run in results["runs"] if run["parameters"]), 0)
    words = (f"{c['model.num_hidden_layers']} layers, width {c['model.hidden_size']}, "
             f"{c['model.num_attention_heads']} query heads over {c['model.num_key_value_heads']} "
             f"KV heads of {c['model.head_dim']}, feed-forward {c['model.intermediate_size']}")
    ratio = f", {tokens / parameters:.0f} tokens a parameter" if parameters else ""
    return (f"Bytes of Python sources (text {facts['text']}); {words}; {parameters:,} parameters "
            f"without maps. Each run sees {c['train.steps']:,} steps of {per_step:,} tokens "
            f"({tokens / 1e6:.1f} M{ratio}; contexts of {c['train.context']}), cosine "
            f"to {c['schedule.floor']:g} of the peak, and is evaluated every "
            f"{c['train.eval_every']} steps on the same {c['train.eval_tokens']:,} held-out tokens. "
            f"{facts['cpu']}, torch {facts['torch']}, {c['train.precision']}, {c['train.device']}; "
            f"commit {facts['commit']}, {facts['date']}.")


def text(plan, results, picture):
    judgements = judged(plan, results)
    chance = 0.05 * len(judgements)
    return f"""# Evidence: do the paper's orderings reproduce?

Made by `{command(plan)}` from `{plan.name}.json`; change nothing by hand.

{summary(judgements)}

## What was run

{what_was_run(plan, results)}

Runs are paired: two arms of one seed share data order, validation tokens and the first values of all
weights that both have. A difference is the validation loss of the arm that the paper reports higher
less that of the lower one, in nats a token; positive is as reported. Intervals are Student's, over
seeds: they cover what another start and data order would change, not another text, size or length
of training. **reproduced**: the interval is above 0; **opposite**: it is below; **not decided**: 0 is
inside, there are fewer than two pairs, or a run diverged. The intervals are not widened for their
number: were there no effect at all, some {chance:.1f} of these {len(judgements)} would leave 0 out.

## Orderings

{orderings_table(judgements, results)}

## The difference over the tokens

Mean ± half the 95 % interval, after that many training tokens (the learning rate still falls on the
way, in all arms alike).

{tokens_table(judgements)}

![Validation loss of each arm and its difference from the baseline over training tokens]({picture})

## Arms

{arms_table(plan, results)}

## Learning rates

Validation loss of short runs ({results['sweep_steps']:,} steps, {sweep_seeds(results)} not used
elsewhere); the best in bold, - where a run is missing or diverged. Where two arms of an ordering have
different rates, their difference is that of the rates too, and such a short sweep errs.
Arms that are not in the table take their rate from one that is: {lenders(plan)}.

{sweep_table(results)}

{edge_note(results)}

## Left out

{left_out(results, judgements)}
"""


def sweep_seeds(results):
    count = len({run["seed"] for run in results["runs"] if run["sweep"]})
    return "one seed" if count == 1 else f"mean over {count} seeds"


def lenders(plan):
    """Who gives its rate to whom."""
    by = {}
    for arm in plan.arms.values():
        if arm.rate_of != arm.name:
            by.setdefault(arm.rate_of, []).append(arm.name)
    return "; ".join(f"{', '.join(names)} from {lender}" for lender, names in by.items()) or "none"


def command(plan):
    return "make evidence" if plan.name == "evidence" else f"scripts/evidence, plan {plan.name}"


def finite_interval(interval):
    return all(map(math.isfinite, (interval.low, interval.high)))
