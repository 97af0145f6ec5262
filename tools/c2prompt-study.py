#!/usr/bin/env python3
"""Runs the study of Powder and C2Prompt and prints its tables: five methods over three seeds, and what C2Prompt sends
more than Powder, counted in several ways.

    cargo build --release
    tools/c2prompt-study.py                                    # about 40 minutes on two cores
    tools/c2prompt-study.py --seeds 1 --rows powder c2prompt-tau0.05
    tools/c2prompt-study.py --overhead                         # the second table alone, of the published scenarios
    tools/c2prompt-study.py --set data.path=... --set backbone.weights=...

Everything after `--set` goes to fedcast as it is. Runs stay below --out; those that are there already are run again,
or, with --keep, read again if they have ended.

Measures are those of summary.json, with the slot known, and AIA among the rows of all slots, too. FT compares with every
slot alone, one round of the row's own method (`fedcast run --direct`).
"""

import argparse
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "scenarios/studies/c2prompt-cifar100-vit-tiny.toml"
PUBLISHED = ROOT / "scenarios/c2prompt"
POWDER = 'method={name="powder", components=8, prompt_len=2'
ROWS = {
    "fed-codap": ['method={name="coda-prompt", ownership="slot", prompt_len=4}'],
    "fed-codap-averaged": ['method={name="coda-prompt", prompt_len=4}'],
    "powder": [POWDER + "}"],
    "lcdc": ["method.cpa=false"],
    "cpa": ["method.lcdc=false"],
    "c2prompt": [],
    "c2prompt-tau0.05": ["method.cpa_temperature=0.05"],
}
PUBLISHED_ROWS = list(ROWS)[:-1]
PERCENT = 100


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="seeds of the runs")
    parser.add_argument("--rows", nargs="+", default=PUBLISHED_ROWS, choices=list(ROWS), help="methods")
    parser.add_argument("--overhead", action="store_true", help="print the bytes of the published scenarios only")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, with one worker each")
    parser.add_argument("--fedcast", default=ROOT / "target/release/fedcast", help="the program")
    parser.add_argument("--out", type=Path, default=Path("runs/c2prompt-study"), help="folder of the runs")
    parser.add_argument("--keep", action="store_true", help="run nothing again that has ended")
    parser.add_argument("--set", action="append", default=[], help="further overrides")
    return parser.parse_args()


def with_sets(command, overrides):
    for override in overrides:
        command += ["--set", override]
    return command


def run(args, name, overrides, seed):
    out = args.out / f"{name}-{seed}"
    told = out / "summary.json"
    if args.keep and told.exists() and json.loads(told.read_text())["ended"] == "done":
        return out, json.loads(told.read_text())
    seeds = [f"seed.run={seed}", f"seed.class_order={seed}"]
    command = [args.fedcast, "run", STUDY, "-q", "--direct", "--force", "--workers", "1", "-o", out]
    command = with_sets(command, [*overrides, *seeds, *args.set])
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out, json.loads(told.read_text())


def seed_of(args, seed):
    """All runs of a seed."""
    return {name: run(args, name, ROWS[name], seed)[1] for name in args.rows}


def measures(summary):
    """Avg, AIA, FM, FT, BT, TT with the slot known, AIA without, megabytes both ways, seconds."""
    own, every = summary["slots"]["own"], summary["slots"]["all"]
    rates = [own[key] or 0 for key in ("avg", "aia", "fm", "ft", "bt", "tt")] + [every["aia"]]
    sent = [summary["bytes"][way]["delivered"]["bytes"] / 1e6 for way in ("down", "up")]
    return [PERCENT * rate for rate in rates] + sent + [summary["wall"]["total_s"]]


def study(args):
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        seeds = list(pool.map(lambda seed: seed_of(args, seed), args.seeds))
    print("| method | Avg % | AIA % | FM | FT | BT | TT | AIA % without the task | MB down | MB up | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in args.rows:
        cells = []
        for column in zip(*(measures(runs[name]) for runs in seeds)):
            spread = f" ± {stdev(column):.2f}" if len(column) > 1 else ""
            cells.append(f"{mean(column):.2f}{spread}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


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
    print("| scenario | accounting | Powder MB | C2Prompt MB | overhead % |")
    print("|---|---|---|---|---|")
    sizes = ["method.components=8", "method.prompt_len=10"]
    for name in ("imagenet-r", "domainnet"):
        for downlink in ("needed", "table"):
            sets = [f"method.downlink={downlink}"]
            powder = planned(args, PUBLISHED / f"{name}-powder.toml", [*sizes, *sets])
            c2prompt = planned(args, PUBLISHED / f"{name}-c2prompt.toml", sets)
            ways = {"both ways": ("down", "up"), "uploads": ("up",)}
            for label, counted in ways.items():
                if downlink == "table" and label == "uploads":
                    continue
                both = [sum(v for (_, way), v in of.items() if way in counted) for of in (powder, c2prompt)]
                share = 100 * (both[1] / both[0] - 1)
                label = f"{label}, downlink \"{downlink}\"" if label == "both ways" else label
                print(f"| {name} | {label} | {both[0] / 1e6:.2f} | {both[1] / 1e6:.2f} | {share:.2f} |")


def main():
    args = arguments()
    if not args.overhead:
        study(args)
        print()
    overhead(args)


if __name__ == "__main__":
    main()
