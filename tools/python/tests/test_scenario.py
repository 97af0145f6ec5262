"""Scenarios: read, refused with the place of the error, planned."""

import json
import subprocess
import sys

import pytest

import fedcast


def program(*words):
    """Run the installed program and return its process."""
    return subprocess.run([sys.executable, "-m", "fedcast", *map(str, words)], capture_output=True, text=True)


def test_file_and_dictionary_have_one_hash(scenario, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(scenario.to_toml())
    assert fedcast.Scenario.load(file).hash == scenario.hash
    assert fedcast.Scenario.load(file).name == "small"
    changed = fedcast.Scenario.load(file, {"federation.rounds": 3})
    assert changed.hash != scenario.hash and "rounds = 3" in changed.to_toml()


def test_errors_have_text_and_place_of_program(scenario, tmp_path):
    file = tmp_path / "wrong.toml"
    text = scenario.to_toml().replace("\nclients = 4\n", "\n  clinets = 4\nrownds = 2\n")
    file.write_text(text)
    line = text.split("\n").index("  clinets = 4") + 1
    with pytest.raises(fedcast.ScenarioError) as caught:
        fedcast.Scenario.load(file)
    error = caught.value
    assert (error.line, error.column) == (line, 3)
    assert error.file == str(file) and error.exit_code == 3
    assert error.help == "did you mean `clients`?"
    assert isinstance(error, ValueError) and len(error.diagnostics) > 1
    printed = program("check", file)
    assert printed.returncode == 3 and printed.stderr.strip() == str(error).strip()


def test_override_errors_name_the_override(table):
    with pytest.raises(fedcast.ScenarioError) as caught:
        fedcast.Scenario.from_dict(table, {"federation.clients": 0})
    assert caught.value.file == "--set" and caught.value.column == len("federation.clients=") + 1


@pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes"])
def test_values_that_toml_lacks_are_type_errors(table, value):
    with pytest.raises(TypeError):
        fedcast.Scenario.from_dict({**table, "client": {"epochs": value}})


def test_numpy_numbers_and_paths_are_values(table, tmp_path):
    np = pytest.importorskip("numpy")
    of = fedcast.Scenario.from_dict(
        {**table, "federation": {"clients": np.int64(4), "rounds": 2}},
        {"client.optimizer.lr": np.float32(0.5), "tasks.sizes": np.array([4, 6])},
    )
    text = of.to_toml()
    assert "clients = 4" in text and "lr = 0.5" in text and "sizes = [4, 6]" in text


def test_check_notes_keys_without_effect(table):
    assert fedcast.Scenario.from_dict(table).check() == []
    notes = fedcast.Scenario.from_dict({**table, "method": {"name": "stsa", "width": 64}}, {"federation.rounds": 7}).check()
    assert any("federation.rounds" in note for note in notes)
    with pytest.raises(fedcast.ScenarioError):
        fedcast.Scenario.from_dict(table, {"partition.min_samples": 1000}).check()


def test_plan_has_the_bytes_of_the_run(scenario, run):
    total = scenario.plan()["total"]
    rounds = run.rounds().to_pandas()
    assert total["up"] == rounds.bytes_up.sum() and total["down"] == rounds.bytes_down.sum()
    assert total["rounds"] == len(rounds) == 4
    assert total["training_jobs"] == 16 and scenario.plan()["notes"] == []


def test_plan_is_that_of_the_program(scenario, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(scenario.to_toml())
    printed = json.loads(program("plan", file, "--format", "json").stdout)
    assert printed.pop("format") == 1
    assert printed == {key: value for key, value in scenario.plan().items() if key != "notes"}
