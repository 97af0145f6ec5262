#!/usr/bin/env python3
"""Makes the study of C2Prompt: what LCDC and CPA are worth beside Powder, over paired seeds.

    cargo build --release
    tools/c2prompt-study.py                              # rates first, then the main rows over eight seeds
    tools/c2prompt-study.py --rows all                   # every temperature, too
    tools/c2prompt-study.py --rows powder cpa --seeds 1 2
    tools/c2prompt-study.py --rate 0.005                 # one learning rate for all, nothing is searched
    tools/c2prompt-study.py --scenario scenarios/studies/c2prompt-digits.toml --rows all
    tools/c2prompt-study.py --overhead                   # what C2Prompt sends more, of the published scenarios
    tools/c2prompt-study.py --set data.path=... --set backbone.weights=...

Everything after `--set` goes to fedcast as it is. Runs stay below --out; those that are there already are run again,
or, with --keep, read again if they have ended, so that a study that was stopped goes on.

1. Every row's learning rate is the one of RATES with the best Avg on held-out training images (data.validation), over
   seeds that the study does not use. Rows that differ in a temperature alone share the rate of `cpa`.
2. Every row runs over the same seeds, which draw the slots' classes and who moves, too. What is printed of two rows is
   the mean of their differences seed by seed and its standard error: rows of one seed have the same slots, and what
   these are worth cancels.
3. What the journal says of every mixing is averaged over mixings and seeds.

Measures are those of summary.json with the slot known. FT and TT compare with slots that are trained alone and are left
out: they need a direct run of every row.
"""

import argparse
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "scenarios/studies/c2prompt-cifar100-vit-tiny.toml"
PUBLISHED = ROOT / "scenarios/c2prompt"
POWDER = 'method={name="powder", components=8, prompt_len=2'
CPA = ["method.lcdc=false"]
TEMPERATURES = ["1e9", "1", "0.3", "0.1", "0.05", "0.02", "0.01"]
MAIN = {
    "alone": [POWDER + ", transfer=false}"],
    "powder": [POWDER + "}"],
    "lcdc": ["method.cpa=false"],
    "cpa": CPA,
    "cpa-tau1e9": [*CPA, "method.cpa_temperature=1e9"],
    "c2prompt": [],
}
MORE = {
    **{f"cpa-tau{tau}": [*CPA, f"method.cpa_temperature={tau}"] for tau in TEMPERATURES[1:]},
    "cpa-beside-powder": [*CPA, "method.cpa_transfer=true"],
    "cpa-last": [*CPA, "method.cpa_last=true"],
    "lcdc-period": ["method.cpa=false", "method.moments=period"],
    "fed-codap": ['method={name="coda-prompt", ownership="slot", prompt_len=4}'],
    "fed-codap-averaged": ['method={name="coda-prompt", prompt_len=4}'],
}
ROWS = {**MAIN, **MORE}
RATES = [0.002, 0.005, 0.01, 0.02]
RATE_SEEDS = [101, 102]
VALIDATION = ["data.validation=0.2", "data.evaluate=validation"]
MEASURES = ("avg", "aia", "fm", "bt")
FIGURES = ("cpa_own_weight", "cpa_kept_rows", "cpa_cosine_within", "cpa_cosine_between", "cpa_accuracy_before",
           "cpa_accuracy_after", "lcdc_second_holders")
PERCENT = 100


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scenario", type=Path, default=STUDY, help="what is run")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)), help="seeds of the runs")
    parser.add_argument("--rows", nargs="+", default=list(MAIN), choices=[*ROWS, "all"], help="methods")
    parser.add_argument("--against", default="powder", choices=list(ROWS), help="the row that others are compared with")
    parser.add_argument("--rate", type=float, help="a learning rate for all rows")
    parser.add_argument("--overhead", action="store_true", help="print the bytes of the published scenarios and no more")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, with one worker each")
    parser.add_argument("--fedcast", default=ROOT / "target/release/fedcast", help="the program")
    parser.add_argument("--out", type=Path, default=Path("runs/c2prompt-study"), help="folder of the runs")
    parser.add_argument("--keep", action="store_true", help="run nothing again that has ended")
    parser.add_argument("--set", action="append", default=[], help="further overrides")
    args = parser.parse_args()
    args.rows = list(ROWS) if "all" in args.rows else args.rows
    return args


def with_sets(command, overrides):
    for override in overrides:
        command += ["--set", override]
    return command


def run(args, name, overrides, seed):
    """Summary of a run and what its server said of every round."""
    out = args.out / f"{name}-{seed}"
    told = out / "summary.json"
    ended = told.exists() and json.loads(told.read_text())["ended"] == "done"
    if not (args.keep and ended):
        seeds = [f"seed.run={seed}", f"seed.class_order={seed}"]
        command = [args.fedcast, "run", args.scenario, "-q", "--force", "--workers", "1", "-o", out]
        command = with_sets(command, [*overrides, *seeds, *args.set])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    closed = [entry for entry in events if entry.get("event", {}).get("type") == "round_closed"]
    figures = [entry.get("numbers", {}).get("metrics", {}) for entry in closed]
    return json.loads(told.read_text()), figures


def in_parallel(args, jobs):
    """Results of `run` by key, for pairs of a key and its arguments."""
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda job: (job[0], run(args, *job[1])), jobs)
        return dict(results)


def searched(row):
    """The row whose learning rate a row uses."""
    return "cpa" if row.startswith("cpa-tau") else row


def rates(args):
    if args.rate is not None:
        return {row: args.rate for row in args.rows}
    rows = list(dict.fromkeys(searched(row) for row in args.rows))
    jobs = [((row, rate, seed), (f"rate-{row}-{rate}", [*ROWS[row], *VALIDATION, f"client.optimiser.lr={rate}"], seed))
            for row in rows for rate in RATES for seed in RATE_SEEDS]
    found = in_parallel(args, jobs)
    print("| Avg % on held-out images at rate | " + " | ".join(map(str, RATES)) + " | chosen |")
    print("|---|" + "---|" * (len(RATES) + 1))
    chosen = {}
    for row in rows:
        avg = {rate: mean(PERCENT * found[row, rate, seed][0]["slots"]["own"]["avg"] for seed in RATE_SEEDS)
               for rate in RATES}
        chosen[row] = max(RATES, key=avg.get)
        cells = " | ".join(f"{avg[rate]:.1f}" for rate in RATES)
        print(f"| {row} | {cells} | {chosen[row]} |", flush=True)
    print()
    return {row: chosen[searched(row)] for row in args.rows}


def spread(values, error=False):
    """Mean and standard deviation, or standard error of the mean."""
    if len(values) < 2:
        return f"{mean(values):.2f}"
    return f"{mean(values):.2f} ± {stdev(values) / (sqrt(len(values)) if error else 1):.2f}"


def study(args):
    args.out.mkdir(parents=True, exist_ok=True)
    rate = rates(args)
    jobs = [((row, seed), (row, [*ROWS[row], f"client.optimiser.lr={rate[row]}",
                                 *(["method.cpa_accuracy=true"] if 'method={' not in "".join(ROWS[row]) else [])], seed))
            for seed in args.seeds for row in args.rows]
    found = in_parallel(args, jobs)
    measured = lambda row, seed, key: PERCENT * (found[row, seed][0]["slots"]["own"][key] or 0)
    versus = args.against if args.against in args.rows else None
    print("| row | rate | Avg % | AIA % | FM | BT | Avg minus {0}'s | AIA minus {0}'s | MB down | MB up | seconds |"
          .format(versus or "nobody"))
    print("|---" * 11 + "|")
    for row in args.rows:
        cells = [spread([measured(row, seed, key) for seed in args.seeds]) for key in MEASURES]
        for key in ("avg", "aia"):
            paired = [measured(row, seed, key) - measured(versus, seed, key) for seed in args.seeds] if versus else []
            cells.append("·" if not paired or row == versus else spread(paired, error=True))
        summaries = [found[row, seed][0] for seed in args.seeds]
        sent = [mean(s["bytes"][way]["delivered"]["bytes"] / 1e6 for s in summaries) for way in ("down", "up")]
        seconds = mean(s["wall"]["total_s"] for s in summaries)
        print(f"| {row} | {rate[row]} | " + " | ".join(cells) + f" | {sent[0]:.1f} | {sent[1]:.1f} | {seconds:.0f} |",
              flush=True)
    print("\n± of a row is the standard deviation over seeds, of a difference its standard error over paired seeds.\n")
    journal(args, found)


def journal(args, found):
    print("| row | " + " | ".join(FIGURES) + " |")
    print("|---" * (len(FIGURES) + 1) + "|")
    for row in args.rows:
        rounds = [figures for seed in args.seeds for figures in found[row, seed][1]]
        of = lambda name: [figures[name] for figures in rounds if name in figures]
        cells = [f"{mean(of(name)):.3f}" if of(name) else "·" for name in FIGURES]
        print(f"| {row} | " + " | ".join(cells) + " |")


def planned(args, scenario, overrides):
    """Payload bytes of all phases of a name, by way: what methods state."""
    command = [args.fedcast, "plan", scenario, "--format", "json"]
    told = subprocess.run(with_sets(command, overrides), check=True, capture_output=True, text=True)
    bytes_of = {}
    for phase in json.loads(told.stdout)["phases"]:
        for way in ("down", "up"):
            key = (phase["phase"], way)
            bytes_of[key] = bytes_of.get(key, 0) + phase[way]["sum"]["payload"]
    return bytes_of


def overhead(args):
    print("| scenario | accounting | Powder MB | C2Prompt MB | more, % | with Powder's mixing beside, MB | more, % |")
    print("|---|---|---|---|---|---|---|")
    sizes = ["method.components=8", "method.prompt_len=10"]
    for name in ("imagenet-r", "domainnet"):
        for downlink in ("needed", "table"):
            sets = [f"method.downlink={downlink}"]
            powder = planned(args, PUBLISHED / f"{name}-powder.toml", [*sizes, *sets])
            forms = [planned(args, PUBLISHED / f"{name}-c2prompt.toml", [*sets, f"method.cpa_transfer={beside}"])
                     for beside in ("false", "true")]
            ways = {"both ways": ("down", "up"), "uploads": ("up",)}
            for label, counted in ways.items():
                if downlink == "table" and label == "uploads":
                    continue
                sums = [sum(v for (_, way), v in of.items() if way in counted) for of in (powder, *forms)]
                cells = [f"{form / 1e6:.2f} | {100 * (form / sums[0] - 1):.2f}" for form in sums[1:]]
                label = f"{label}, downlink \"{downlink}\"" if label == "both ways" else label
                print(f"| {name} | {label} | {sums[0] / 1e6:.2f} | " + " | ".join(cells) + " |")


def main():
    args = arguments()
    if args.overhead:
        overhead(args)
    else:
        study(args)


if __name__ == "__main__":
    main()
