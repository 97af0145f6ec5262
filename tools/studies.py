#!/usr/bin/env python3
"""Runs a study of scenarios/studies and prints its table.

    cargo build --release
    tools/studies.py stragglers
    tools/studies.py async --seeds 1 2 3
    tools/studies.py malicious --set partition.beta=0.1

Every row is the scenario with one change, as a mean over the seeds (of run and partition) ± their standard deviation. Everything after
`--set` goes to fedcast as it is. Runs stay below --out; those that are there already are run again.
"""

import argparse
import json
import subprocess
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parent.parent


def deadline(seconds, more=""):
    return [f'round={{close="deadline",deadline_s={seconds}{more}}}']


# As many updates as sixty buffers of five.
TEN = ["federation.rounds=30"]


def buffer(size, more=""):
    return [f"federation.rounds={300 // size}", f'round={{close="buffer",buffer={size}{more}}}']


def availability(text):
    return [f"availability={{{text}}}"]


def method(name, more="", lr=None):
    """A method whose clients learn a prompt and the head, with plain SGD where a rate is given."""
    sgd = [f'client.optimiser={{kind="sgd",lr={lr}}}'] if lr else []
    return [f'method={{name="{name}",train="prompt",prompt_len=20{more}}}', *sgd]


# The rate of methods that take plain SGD, and FedAvg's beside them.
SGD = 0.3

STUDIES = {
    "baselines": ("baselines-digits.toml", [
        ("FedAvg", []),
        ("FedProx", method("fedprox")),
        ("LwF", method("lwf")),
        ("FedLwF.MC", method("fedlwf-mc")),
        ("EWC", method("ewc", ",skip_last_round=false")),
        ("FisherAVG", method("fisheravg")),
        ("FedProto", method("fedproto")),
        ("CCVR, current classes", method("ccvr")),
        ("CCVR, classes seen", method("ccvr", ',scope="seen"')),
        ("ER, 50 samples a client", method("er", ",buffer=50")),
        ("DER++, 50 samples a client", method("der", ",buffer=50")),
        ("iCaRL, 50 samples a client", method("icarl", ",budget=50")),
        ("HGP", ['method={name="hgp",prompt_len=20}']),
        ("FedAvg, SGD", method("fedavg", lr=SGD)),
        ("SCAFFOLD, SGD", method("scaffold", lr=SGD)),
        ("FedDC, SGD", method("feddc", lr=SGD)),
        ("GradMA, SGD", method("gradma", lr=SGD)),
    ]),
    "stragglers": ("stragglers.toml", [
        ("all", []),
        *[(f"deadline {seconds} s", deadline(seconds)) for seconds in (20, 10, 5, 3, 2, 1.5, 1)],
        ("deadline 2 s, late folded", deadline(2, ',late="fold"')),
        ("first 8 of 10", ['round={close="quorum",quorum=0.8}']),
    ]),
    "async": ("async-vs-sync.toml", [
        ("synchronous", [*TEN, 'round={close="all"}']),
        ("deadline 2 s", [*TEN, *deadline(2)]),
        ("semi-asynchronous, 2 s", [*TEN, *deadline(2, ',late="fold"')]),
        ("buffer of 10", buffer(10)),
        ("buffer of 5", buffer(5)),
        ("buffer of 2", buffer(2)),
        ("buffer of 5, no staleness weight", buffer(5, ",staleness_power=0")),
        ("buffer of 5, at most 2 old", buffer(5, ",max_staleness=2")),
    ]),
    "availability": ("availability.toml", [
        ("always", []),
        ("markov, a quarter", availability('kind="markov",on_s=60,off_s=180')),
        ("diurnal, all zones", availability('kind="diurnal",period_s=600,slot_s=30,spread=1')),
        ("diurnal, one zone", availability('kind="diurnal",period_s=600,slot_s=30,spread=0')),
        ("by data", availability('kind="by-data",slot_s=30,power=1')),
        ("leave after 2 minutes", availability('stay_s={dist="exponential",mean=120}')),
    ]),
    "malicious": ("malicious.toml", [
        (f"{fold[0]}, {who}", [f"federation.fold={fold[0]}", *fold[1:], *change])
        for fold in (["mean"], ["median"], ["trimmed-mean", "federation.trim=0.3"],
                     ["norm-clipped", "federation.clip_norm=1"])
        for who, change in (("nobody lies", ["faults=[]"]), ("3 of 10 lie", []))
    ]),
    "arrival": ("task-arrival.toml", [
        ("global", ["tasks={count=5}"]),
        ("half ahead by half a task", []),
        ("a fifth ahead by a task", ['tasks={count=5,arrival="paced",ahead=0.2,lead=1}']),
        ("lag, 20 s on average",
         ['tasks={count=5,arrival="per-client",lag_s={dist="exponential",mean=20}}']),
    ]),
}

HEAD = ["change", "FAA %", "forgetting since best", "virtual s", "MB down", "MB up", "wasted up %", "silent seats %", "wall s"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("study", choices=STUDIES, help="which one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of run and partition")
    parser.add_argument("--fedcast", default=ROOT / "target/release/fedcast", help="the program")
    parser.add_argument("--out", type=Path, default=Path("runs/studies"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], help="further overrides")
    return parser.parse_args()


def run(args, scenario, name, overrides, seed):
    out = args.out / args.study / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    out.parent.mkdir(parents=True, exist_ok=True)
    seeds = [f"seed.run={seed}", f"seed.partition={seed}"]
    command = [args.fedcast, "run", ROOT / "scenarios/studies" / scenario, "-q", "--force", "-o", out]
    for override in [*overrides, *seeds, *args.set]:
        command += ["--set", override]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return figures(json.loads((out / "summary.json").read_text()), (out / "rounds.csv").read_text())


def figures(summary, rounds):
    up = summary["bytes"].get("up", {})
    sent = sum(sums["bytes"] for sums in up.values())
    head, *rows = [line.split(",") for line in rounds.splitlines()]
    column = lambda name: sum(int(row[head.index(name)]) for row in rows)
    seats, aggregated = column("seats"), column("aggregated")
    return [
        100 * summary["accuracy"]["faa"],
        100 * summary["accuracy"]["forgetting_from_best"],
        summary["virtual_s"],
        sum(sums["bytes"] for sums in summary["bytes"].get("down", {}).values()) / 1e6,
        sent / 1e6,
        100 * (1 - up.get("delivered", {"bytes": 0})["bytes"] / sent),
        100 * (1 - aggregated / seats),
        summary["wall"]["total_s"],
    ]


def main():
    args = arguments()
    scenario, rows = STUDIES[args.study]
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for name, overrides in rows:
        runs = [run(args, scenario, name, overrides, seed) for seed in args.seeds]
        print("| " + " | ".join([name, *map(spread, zip(*runs))]) + " |", flush=True)


def spread(values):
    """Mean and standard deviation over seeds; the mean alone where all are alike."""
    deviation = stdev(values) if len(values) > 1 else 0.0
    return f"{mean(values):.1f}" + (f" ± {deviation:.1f}" if round(deviation, 1) else "")


if __name__ == "__main__":
    main()
