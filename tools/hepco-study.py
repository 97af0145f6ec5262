#!/usr/bin/env python3
"""Makes the study of HePCo: what its server's steps are worth at each replay ratio, beside FedAvg-Prompt.

    cargo build --release
    tools/hepco-study.py
    tools/hepco-study.py --ratios 0.5 --seeds 1
    tools/hepco-study.py --scenario scenarios/studies/hepco-cifar100-vit-tiny.toml

Everything after `--set` goes to fedcast as it is. Runs stay below --out; those that are there already are run again,
or, with --keep, read again if they have ended, so that a study that was stopped goes on.

`detached` is the release, whose distance gives generators no gradient whatever lambda_mse is; `mean` is the paper's form
with its 0.1. A row is the mean over seeds ± their standard deviation; differences to
FedAvg-Prompt are taken seed by seed, ± their standard error.
"""

import argparse
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "scenarios/studies/hepco-digits.toml"
BASELINE = "FedAvg-Prompt"
FORMS = {"detached": [], "mean": ["method.mse_gradient=mean"]}
FIGURES = ("generator_accuracy", "old_generator_accuracy")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scenario", type=Path, default=STUDY, help="what is run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="seeds of the runs and of the order of classes")
    parser.add_argument("--ratios", nargs="+", default=["0.25", "0.5", "1", "2"], help="replay ratios")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, with one worker each")
    parser.add_argument("--fedcast", default=ROOT / "target/release/fedcast", help="the program")
    parser.add_argument("--out", type=Path, default=Path("runs/hepco-study"), help="folder of the runs")
    parser.add_argument("--keep", action="store_true", help="run nothing again that has ended")
    parser.add_argument("--set", action="append", default=[], help="further overrides")
    return parser.parse_args()


def run(args, name, overrides, seed):
    """What a run came to: its accuracies in %, and the mean over rounds of what generators were answered."""
    out = args.out / f"{name}-{seed}"
    told = out / "summary.json"
    if not (args.keep and told.exists() and json.loads(told.read_text())["ended"] == "done"):
        command = [args.fedcast, "run", args.scenario, "-q", "--force", "--workers", "1", "-o", out]
        for override in [*overrides, f"seed.run={seed}", f"seed.class_order={seed}", *args.set]:
            command += ["--set", override]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    accuracy = json.loads(told.read_text())["accuracy"]
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    closed = [entry for entry in events if entry.get("event", {}).get("type") == "round_closed"]
    metrics = [entry.get("numbers", {}).get("metrics", {}) for entry in closed]
    said = lambda figure: [figures[figure] for figures in metrics if figure in figures]
    return {
        "average": 100 * accuracy["average_incremental_micro"],
        "last": 100 * accuracy["micro"],
        "forgetting": 100 * accuracy["forgetting_from_best"],
        **{figure: 100 * mean(said(figure)) for figure in FIGURES if said(figure)},
    }


def spread(values, error=False):
    if len(values) < 2:
        return "".join(f"{value:.1f}" for value in values) or "·"
    return f"{mean(values):.1f} ± {stdev(values) / (sqrt(len(values)) if error else 1):.1f}"


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = {BASELINE: ['method={name="fedavg-prompt"}']}
    for ratio in args.ratios:
        for form, overrides in FORMS.items():
            rows[f"{form}, {ratio}"] = [*overrides, f"method.replay_ratio={ratio}"]
    keys = [(row, seed) for seed in args.seeds for row in rows]
    with ThreadPoolExecutor(args.jobs) as pool:
        name = lambda row: row.replace(", ", "-")
        found = dict(zip(keys, pool.map(lambda key: run(args, name(key[0]), rows[key[0]], key[1]), keys)))
    print("| row | A-bar % | A_T % | forgetting | A-bar minus the baseline's | A_T minus | answered as asked, new % | old % |")
    print("|---" * 8 + "|")
    for row in rows:
        of = lambda figure, row=row: [found[row, s][figure] for s in args.seeds if figure in found[row, s]]
        cells = [spread(of(figure)) for figure in ("average", "last", "forgetting")]
        for figure in ("average", "last"):
            paired = [own - other for own, other in zip(of(figure), of(figure, BASELINE))]
            cells.append("·" if row == BASELINE else spread(paired, error=True))
        cells += [spread(of(figure)) for figure in FIGURES]
        print(f"| {row} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
