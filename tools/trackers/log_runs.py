#!/usr/bin/env python3
"""Log finished runs of fedcast, one by one or all of a study, with Weights & Biases or MLflow.

    tools/trackers/log_runs.py --to wandb --project fcil runs/lr
    tools/trackers/log_runs.py --to mlflow --project fcil studies/scale

Needs Python 3.11 and the client (`pip install wandb` or `pip install mlflow`), no account and no network: wandb writes
the folder wandb/, for `wandb sync`; MLflow writes mlflow.db, for `mlflow ui --backend-store-uri sqlite:///mlflow.db`.
With --online, wandb logs to its server; MLflow follows MLFLOW_TRACKING_URI if it is set.

Each run has: as configuration the scenario with all defaults and the seeds; as metrics the numbers of rounds.jsonl by
round; as summary those of summary.json; as tags status, method, digests and hash. Runs of one folder are a group.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import tomllib


def flat(value, path=""):
    """Yields dotted paths and values of a nested document; lists of tables are numbered from 1."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for place, inner in enumerate(value, 1):
            yield from flat(inner, f"{path}.{place}")
    else:
        yield path, value


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Run:
    """A run directory: configuration, rounds, summary, facts."""

    def __init__(self, folder, root):
        text = lambda name: (folder / name).read_text(encoding="utf-8")
        self.folder = folder
        self.name = folder.relative_to(root).as_posix() if folder != root else folder.name
        self.manifest = json.loads(text("manifest.json"))
        scenario = tomllib.loads(text("scenario.effective.toml"))
        config = dict(flat(scenario)) | dict(flat(self.manifest["seeds"], "seeds"))
        # Infinity is no JSON, and dates are none either.
        plain = lambda value: value if is_number(value) or isinstance(value, (bool, str, list)) else str(value)
        self.config = {key: plain(value) for key, value in config.items()}
        self.rounds = [json.loads(line) for line in text("rounds.jsonl").splitlines()]
        self.summary = {key: value for key, value in flat(json.loads(text("summary.json"))) if is_number(value)}
        digests = self.manifest.get("digests") or {}
        self.tags = {
            "status": self.manifest["status"],
            "method": self.manifest["method"],
            "fedcast": self.manifest["fedcast"],
            "hash": self.manifest["scenario"]["hash"],
        } | {f"digest_{level}": digest for level, digest in digests.items()}

    def points(self):
        """Yields each round's number with its numbers."""
        for row in self.rounds:
            numbers = {key: value for key, value in row.items() if is_number(value) and key != "_step"}
            yield row["_step"], numbers


def found(root):
    """Returns the finished runs at or below a folder, in order of their paths."""
    runs = []
    for manifest in sorted(root.rglob("manifest.json")):
        status = json.loads(manifest.read_text(encoding="utf-8")).get("status")
        if status == "done":
            runs.append(Run(manifest.parent, root))
        else:
            print(f"{manifest.parent}: left out, its status is {status}", file=sys.stderr)
    return runs


def to_wandb(run, group, options):
    import wandb

    mode = "online" if options.online else "offline"
    logged = wandb.init(
        project=options.project, group=group, name=run.name, config=run.config | run.tags, mode=mode, reinit=True,
        tags=[run.tags["method"]],
    )
    for step, numbers in run.points():
        logged.log(numbers, step=step)
    for key, value in run.summary.items():
        logged.summary[key] = value
    logged.finish()


def to_mlflow(run, group, options):
    import mlflow
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.utils.time import get_current_time_millis

    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment(options.project)
    client = mlflow.MlflowClient()
    now = get_current_time_millis()
    # A parameter has at most 6,000 characters.
    params = [Param(key, str(value)[:6000]) for key, value in run.config.items()]
    tags = [RunTag(key, str(value)) for key, value in (run.tags | {"group": group}).items()]
    metrics = [Metric(key, value, now, step) for step, numbers in run.points() for key, value in numbers.items()]
    last = run.rounds[-1]["_step"] if run.rounds else 0
    metrics += [Metric(f"summary.{key}", value, now, last) for key, value in run.summary.items()]
    with mlflow.start_run(run_name=run.name) as logged:
        # A call takes at most 1,000 metrics and 100 parameters.
        for start in range(0, len(metrics), 900):
            client.log_batch(logged.info.run_id, metrics=metrics[start : start + 900])
        for start in range(0, len(params), 100):
            client.log_batch(logged.info.run_id, params=params[start : start + 100])
        client.log_batch(logged.info.run_id, tags=tags)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", choices=["wandb", "mlflow"], required=True, help="tracker")
    parser.add_argument("--project", default="fedcast", help="project of wandb, experiment of MLflow")
    parser.add_argument("--online", action="store_true", help="let wandb log to its server")
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="run directories, studies, folders of runs")
    options = parser.parse_args()
    log = {"wandb": to_wandb, "mlflow": to_mlflow}[options.to]
    count = 0
    for folder in options.folders:
        runs = found(folder)
        if not runs:
            parser.error(f"{folder}: no finished run at or below it")
        for run in runs:
            log(run, folder.resolve().name, options)
            count += 1
    print(f"{count} {'run' if count == 1 else 'runs'} logged with {options.to}")


if __name__ == "__main__":
    main()
