"""Bytes per round and accuracy of three methods with 100 clients, over three seeds.

A notebook in cells (``# %%``): Jupyter, VS Code and Spyder run them one by one. As a program it takes a folder::

    python scalability.py out
"""

# %% Scenario: 100 clients with unequal classes, one linear layer on rows of numbers.
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

import fedcast

out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "scalability")

base = {
    "data": {
        "source": "synthetic",
        "synthetic": {"classes": 20, "width": 64, "train_samples": 500, "test_samples": 50},
    },
    "tasks": {"count": 4},
    "partition": {"kind": "extended", "beta": 0.5},
    "backbone": {"kind": "pixels"},
    "federation": {"clients": 100, "rounds": 5},
    "participation": {"fraction": 0.2},
    "client": {"epochs": 2, "batch_size": 16, "optimizer": {"lr": 0.01}},
    "links": {"preset": "mobile"},
    "time": {"preset": "mobile"},
}


# %% A rule of our own: the median of every number over clients.
class Median:
    """Coordinate-wise median."""

    def aggregate(self, round, updates):
        import numpy as np

        stacks = {name: [update.parameters[name] for update in updates] for name in round.mean}
        return {name: np.median(stack, axis=0) for name, stack in stacks.items()}


methods = {
    "fedavg": {"name": "fedavg", "train": "head"},
    "stsa": {"name": "stsa", "width": 64},
    "median": {"name": "python", "rule": Median(), "train": "head"},
}

# %% Plans: bytes and virtual time without training.
for name, method in methods.items():
    total = fedcast.Scenario.from_dict({**base, "method": method}, name=name).plan()["total"]
    print(f"{name:8} {total['up'] / 1e6:7.2f} MB up  {total['virtual_s']:7.0f} s")

# %% Nine runs. A finished one is read back.
frames, finals = [], []
for name, method in methods.items():
    for seed in (1, 2, 3):
        scenario = fedcast.Scenario.from_dict({**base, "method": method}, {"seed.run": seed}, name=name)
        path = out / "runs" / f"{name}-s{seed}"
        try:
            run = scenario.run(out=path)
        except fedcast.RunExistsError:
            run = fedcast.Run.open(path)
        frames.append(run.rounds().to_pandas().assign(method=name, seed=seed))
        finals.append({"method": name, "seed": seed, "final accuracy": run.summary["accuracy"]["faa"]})
rounds = pd.concat(frames, ignore_index=True)

# %% Bytes per round, and accuracy over virtual time: means and ranges over seeds.
rounds["megabytes"] = (rounds.bytes_down + rounds.bytes_up) / 1e6
styles = dict(zip(methods, ["-", "-.", "--"]))
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
for name, of in rounds.groupby("method", sort=False):
    by_round = of.groupby("round")
    megabytes = by_round.megabytes.mean()
    left.step(megabytes.index, megabytes, styles[name], where="mid", label=name)
    seen = of.dropna(subset=["accuracy_seen"]).groupby("round")
    seconds = seen.closed_s.mean()
    accuracy = seen.accuracy_seen
    right.plot(seconds, accuracy.mean(), styles[name], label=name)
    right.fill_between(seconds, accuracy.min(), accuracy.max(), alpha=0.2)
left.set(xlabel="round", ylabel="MB per round, both directions", yscale="log")
right.set(xlabel="virtual time [s]", ylabel="accuracy on tasks so far", ylim=(0, 1))
left.legend()
figure.tight_layout()
figure.savefig(out / "scalability.png", dpi=150)

# %% Final accuracy and traffic.
table = pd.DataFrame(finals).groupby("method", sort=False)["final accuracy"].agg(["mean", "std"])
table["MB in all"] = rounds.groupby(["method", "seed"]).megabytes.sum().groupby("method").mean()
print(table.round(3))
