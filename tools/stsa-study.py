#!/usr/bin/env python3
"""Runs the STSA study and prints its table: both variants, three degrees of imbalance, three numbers of
clients, over the features of one first stage.

    cargo build --release
    tools/stsa-study.py                                    # frozen features, a few minutes
    tools/stsa-study.py --first '{name="adapter", rounds=3}'
    tools/stsa-study.py --set data.path=... --set backbone.weights=...

Everything after `--set` goes to fedcast as it is. Runs stay below --out; those that are there already are
run again.
"""

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios/studies/stsa-cifar100-vit-tiny.toml"
BETAS = ["1.0", "0.1", "0.05"]
CLIENTS = [5, 50, 100]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--first", default='{name="none"}', help="[method.first] as an inline table")
    parser.add_argument("--units", type=int, default=10, help="units of a client in STSA-E at 5 clients")
    parser.add_argument("--fedcast", default=ROOT / "target/release/fedcast", help="the program")
    parser.add_argument("--out", type=Path, default=Path("runs/stsa-study"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], help="further overrides")
    return parser.parse_args()


def run(args, method, beta, clients, units):
    out = args.out / f"{method}-beta{beta}-{clients}-clients"
    overrides = [
        f"method.name={method}",
        f"method.first={args.first}",
        f"partition.beta={beta}",
        f"federation.clients={clients}",
        f"federation.units.count={units}",
        *args.set,
    ]
    command = [args.fedcast, "run", SCENARIO, "-q", "--force", "-o", out]
    for override in overrides:
        command += ["--set", override]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "summary.json").read_text())


def row(method, beta, clients, units, summary):
    accuracy, wall = summary["accuracy"], summary["wall"]
    frames = [summary["bytes"].get(way, {}).get("delivered", {}) for way in ("down", "up")]
    down, up = (frame.get("bytes", 0) for frame in frames)
    cells = [
        method, beta, clients, units,
        f"{100 * accuracy['faa']:.2f}",
        f"{100 * accuracy['average_incremental_micro']:.2f}",
        f"{100 * accuracy['forgetting_from_best']:.2f}",
        f"{down / 1e6:.3f}", f"{up / 1e6:.3f}",
        f"{wall['total_s']:.1f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    print("| method | beta | clients | units each | FAA % | A-bar % | F points | MB down | MB up | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for method in ("stsa", "stsa-e"):
        for clients in CLIENTS:
            # Many clients need no units.
            units = args.units if method == "stsa-e" and clients == CLIENTS[0] else 1
            for beta in BETAS:
                summary = run(args, method, beta, clients, units)
                print(row(method, beta, clients, units, summary), flush=True)


if __name__ == "__main__":
    main()
