"""Small federations that train in a fraction of a second."""

import pytest

import fedcast


@pytest.fixture
def table():
    """A scenario of four clients, two tasks and two rounds in each."""
    return {
        "data": {"source": "digits", "subset": 12},
        "tasks": {"sizes": [5, 5]},
        "partition": {"kind": "iid", "min_samples": 2},
        "backbone": {"kind": "pixels"},
        "method": {"name": "fedavg", "train": "head"},
        "federation": {"clients": 4, "rounds": 2},
        "client": {"epochs": 1, "batch_size": 16},
    }


@pytest.fixture
def scenario(table):
    return fedcast.Scenario.from_dict(table, name="small")


@pytest.fixture
def run(scenario, tmp_path):
    return scenario.run(out=tmp_path / "run")


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """Nothing is written outside the folder of the test."""
    monkeypatch.setenv("FEDCAST_CACHE", str(tmp_path / "cache"))
