"""A server rule in Python: arithmetic, state, errors, bytes and time."""

import numpy as np
import pytest

import fedcast


class Mean:
    def aggregate(self, round, updates):
        return {name: fedcast.weighted_mean(updates, name) for name in round.mean}


class Momentum:
    """FedAvgM: a velocity that is kept in the state."""

    def __init__(self, beta):
        self.beta = beta

    def aggregate(self, round, updates):
        new = {}
        for name, before in round.parameters.items():
            old = round.state.get(name, np.zeros_like(before))
            round.state[name] = np.float32(self.beta) * old + (round.mean[name] - before)
            new[name] = before + round.state[name]
        return new


def with_rule(table, rule, **keys):
    return fedcast.Scenario.from_dict({**table, "method": {"name": "python", "rule": rule, "train": "head", **keys}})


def numbers(run):
    """Accuracies and losses, which no two different models share."""
    return run.rounds().to_pandas()[["loss", "accuracy_seen", "bytes_up", "bytes_down", "closed_s"]]


def test_mean_in_python_is_fedavg(table, tmp_path):
    mine = with_rule(table, Mean()).run(out=tmp_path / "mine")
    fedavg = fedcast.Scenario.from_dict(table).run(out=tmp_path / "fedavg")
    np.testing.assert_allclose(numbers(mine), numbers(fedavg), rtol=1e-5)


def test_momentum_in_python_is_fedavgm(table, tmp_path):
    table = {**table, "federation": {"clients": 4, "rounds": 5}}
    mine = with_rule(table, Momentum(0.5)).run(out=tmp_path / "mine")
    method = {"name": "fedavgm", "train": "head", "momentum": 0.5}
    known = fedcast.Scenario.from_dict({**table, "method": method}).run(out=tmp_path / "known")
    np.testing.assert_allclose(numbers(mine).loss, numbers(known).loss, rtol=1e-4)
    fedavg = fedcast.Scenario.from_dict(table).run(out=tmp_path / "fedavg")
    assert not np.allclose(numbers(mine).loss[1:], numbers(fedavg).loss[1:], rtol=1e-2)


def test_rule_gets_round_and_updates(table, tmp_path):
    seen = []

    class Look:
        def aggregate(self, round, updates):
            seen.append((round, updates))
            round.metrics["answer"] = 42
            return {}

    run = with_rule(table, Look()).run(out=tmp_path / "run")
    rounds = [round for round, _ in seen]
    assert [(round.number, round.task) for round in rounds] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert rounds[3].new_rows == range(5, 10) and rounds[3].classes == [5, 6, 7, 8, 9]
    for round, updates in seen:
        assert [update.client for update in updates] == [0, 1, 2, 3]
        for name, mean in round.mean.items():
            assert not mean.flags.writeable
            weighted = fedcast.weighted_mean(updates, name)
            np.testing.assert_allclose(mean, weighted, atol=1e-6)
    held = run.table("partition").to_pandas().query("task == 1").groupby("client").samples.sum()
    assert [update.samples for update in seen[0][1]] == list(held)
    closed = run.events().to_pandas().query("type == 'round_closed'")
    assert all('"answer":42.0' in more for more in closed.more)
    # Names that are left out keep the mean.
    for before, after in zip(rounds, rounds[1:]):
        for name, mean in before.mean.items():
            np.testing.assert_array_equal(mean, after.parameters[name])


def test_run_of_a_rule_resumes_with_its_state(table, tmp_path):
    rule = Momentum(0.5)
    whole = with_rule(table, rule).run(out=tmp_path / "whole")

    def stop(now):
        if now.round == 2:
            raise RuntimeError

    scenario = with_rule(table, rule)
    with pytest.raises(RuntimeError):
        scenario.run(out=tmp_path / "part", progress=stop)
    part = fedcast.Run.open(tmp_path / "part", rule=rule)
    if part.status != "done":
        with pytest.warns(UserWarning):
            part.resume()
    assert part.digests == whole.digests == whole.verify().digests


def test_manifest_names_the_object_that_a_replay_needs(table, tmp_path):
    scenario = with_rule(table, Mean())
    run = scenario.run(out=tmp_path / "run")
    assert f"{__name__}.Mean" in run.manifest["requires"]
    for call in (fedcast.Run.open(run.path).verify, fedcast.Run.open(run.path).resume):
        with pytest.raises(fedcast.FedcastError, match="needs its Python object"):
            call()
    # Tables and other times need no rule.
    retimed = fedcast.Run.open(run.path).what_if({"links.preset": "mobile"}).retimed
    assert retimed["virtual_s"] > 0


def test_rule_and_its_values_are_part_of_the_hash(table):
    assert with_rule(table, Momentum(0.5)).hash == with_rule(table, Momentum(0.5)).hash
    assert with_rule(table, Momentum(0.5)).hash != with_rule(table, Momentum(0.9)).hash
    assert with_rule(table, Momentum(0.5)).hash != with_rule(table, Mean()).hash


def test_file_takes_a_rule(table, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(fedcast.Scenario.from_dict(table).to_toml())
    rule = Mean()
    loaded = fedcast.Scenario.load(file, {"method": {"name": "python", "train": "head"}}, rule=rule)
    assert loaded.hash == with_rule(table, rule).hash


def test_server_passes_take_virtual_time(table):
    timed = {**table, "time": {"preset": "mobile"}, "links": {"preset": "mobile"}}
    free, paid = with_rule(timed, Mean()).plan(), with_rule(timed, Mean(), server_passes=1000.0).plan()
    assert free["total"]["up"] == paid["total"]["up"]
    assert free["total"]["virtual_s"] < paid["total"]["virtual_s"]


@pytest.mark.parametrize(
    "answer, error",
    [
        (lambda round: None, TypeError),
        (lambda round: {"nothing": 1.0}, KeyError),
        (lambda round: {name: np.zeros(3) for name in round.mean}, ValueError),
        (lambda round: {name: np.full_like(mean, np.nan) for name, mean in round.mean.items()}, ValueError),
        (lambda round: 1 / 0, ZeroDivisionError),
    ],
)
def test_errors_of_a_rule_are_causes(table, tmp_path, answer, error):
    class Wrong:
        def aggregate(self, round, updates):
            return answer(round)

    with pytest.raises(fedcast.FedcastError, match="the rule in Python raised") as caught:
        with_rule(table, Wrong()).run(out=tmp_path / "run")
    assert isinstance(caught.value.__cause__, error)
    assert fedcast.Run.open(tmp_path / "run").status == "failed"


def test_object_without_aggregate_is_no_rule(table):
    with pytest.raises(TypeError, match="aggregate"):
        with_rule(table, object())
