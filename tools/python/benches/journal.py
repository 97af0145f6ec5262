"""Measure reading a journal into pandas, beside ``json`` and pandas by hand, and the overhead of a rule in Python.

Run it from any folder: ``python tools/python/benches/journal.py``. Every reading is a process of its own, three times;
the smallest time and the largest memory beyond the imports are printed.
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

SCENARIO = {
    "data": {"source": "synthetic", "synthetic": {"classes": 10, "width": 16, "train_samples": 4000}},
    "tasks": {"count": 2},
    "partition": {"kind": "iid", "min_samples": 1},
    "backbone": {"kind": "pixels"},
    "method": {"name": "fedavg", "train": "head"},
    "federation": {"clients": 10_000, "rounds": 5},
    "client": {"epochs": 1, "batch_size": 16},
    "time": {"preset": "mobile"},
    "links": {"preset": "mobile"},
}


class Mean:
    """FedAvg's mean again, in Python."""

    def aggregate(self, round, updates):
        import fedcast

        return {name: fedcast.weighted_mean(updates, name) for name in round.mean}


def by_fedcast(path):
    import fedcast

    return fedcast.Run.open(path).events().to_pandas()


def by_hand(path):
    import pandas

    rows = []
    with open(pathlib.Path(path) / "events.jsonl") as lines:
        for line in lines:
            entry = json.loads(line)
            if "seal" in entry:
                continue
            row = {"seq": entry["seq"], "at": entry["at"], **entry["event"]}
            size = row.pop("bytes", None)
            if size is not None:
                row["bytes"] = size["header"] + size["meta"] + size["table"] + size["payload"]
            numbers = entry.get("numbers", {})
            row["digest"] = numbers.get("digest")
            row["loss"] = numbers.get("metrics", {}).get("loss_last_epoch")
            rows.append(row)
    return pandas.DataFrame(rows)


def by_json_normalize(path):
    import pandas

    with open(pathlib.Path(path) / "events.jsonl") as lines:
        return pandas.json_normalize([json.loads(line) for line in lines])


READERS = {read.__name__: read for read in (by_fedcast, by_hand, by_json_normalize)}


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read(name, path):
    """Read in this process and print rows, seconds and megabytes."""
    import pandas
    import pyarrow

    import fedcast

    # What is loaded on first use belongs to no reading.
    pyarrow.table({"a": [1]}).to_pandas()
    before, began = peak_mb(), time.perf_counter()
    frame = READERS[name](path)
    print(json.dumps([len(frame), time.perf_counter() - began, peak_mb() - before]))


def measure(path):
    size = (pathlib.Path(path) / "events.jsonl").stat().st_size
    print(f"journal of {size / 1e6:.1f} MB")
    for name in READERS:
        told = [subprocess.run([sys.executable, __file__, name, path], capture_output=True, text=True, check=True)
                for _ in range(3)]
        found = [json.loads(process.stdout) for process in told]
        seconds, memory = min(of[1] for of in found), max(of[2] for of in found)
        print(f"{name:18} {found[0][0]} rows  {seconds:7.2f} s  {memory:6.0f} MB")


def overhead():
    """Print the time of a round with a rule in Python and without."""
    import fedcast

    small = {**SCENARIO, "federation": {"clients": 100, "rounds": 50}}
    with tempfile.TemporaryDirectory() as folder:
        for name, method in [("fedavg", {"name": "fedavg"}), ("python", {"name": "python", "rule": Mean()})]:
            scenario = fedcast.Scenario.from_dict({**small, "method": {**method, "train": "head"}})
            times = []
            for at in range(3):
                began = time.perf_counter()
                scenario.run(out=f"{folder}/{name}-{at}")
                times.append(time.perf_counter() - began)
            print(f"{name:7} 100 clients: {1000 * min(times) / 100:.2f} ms per round")


def main():
    import fedcast

    with tempfile.TemporaryDirectory() as folder:
        measure(str(fedcast.Scenario.from_dict(SCENARIO).run(out=f"{folder}/run").path))
    overhead()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        read(*sys.argv[1:])
    else:
        main()
