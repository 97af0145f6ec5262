"""The package as it is installed: the program, the example, the types."""

import inspect
import pathlib
import subprocess
import sys

import pytest

import fedcast

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "scalability.py"


def test_command_is_on_the_path():
    command = pathlib.Path(sys.executable).with_name("fedcast")
    if not command.exists():
        pytest.skip("the package is not installed in this environment")
    help = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert help.stdout.startswith("Simulates federated")
    wrong = subprocess.run([command, "check", "nowhere.toml"], capture_output=True, text=True)
    assert wrong.returncode == 3 and "cannot read the scenario" in wrong.stderr


def test_example_runs_from_end_to_end(tmp_path):
    pytest.importorskip("matplotlib")
    ran = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "scalability.png").stat().st_size > 10_000
    assert len(list((tmp_path / "runs").iterdir())) == 9
    table = ran.stdout.split("MB in all\n")[1]
    assert all(name in table for name in ("fedavg", "stsa", "median"))


def test_columns_are_those_of_the_program():
    names = [column["name"] for column in fedcast.columns("rounds.csv")]
    assert names[:3] == ["round", "task", "phase"]
    assert any(file["name"] == "study/table.csv" for file in fedcast.columns())
    with pytest.raises(KeyError):
        fedcast.columns("nothing.csv")


def test_public_names_have_docstrings():
    for name in fedcast.__all__:
        of = getattr(fedcast, name)
        assert inspect.getdoc(of), name
        if inspect.isclass(of):
            for member, function in inspect.getmembers(of, inspect.isroutine):
                if not member.startswith("_"):
                    assert inspect.getdoc(function), f"{name}.{member}"


def test_stubs_have_the_names_of_the_native_part():
    stub = pathlib.Path(fedcast.__file__).with_name("_fedcast.pyi").read_text()
    native = [name for name in dir(fedcast._fedcast) if not name.startswith("__")]
    for name in native:
        assert f"def {name}(" in stub or f"class {name}:" in stub, name
    for of in (fedcast.Table, fedcast._fedcast.Scenario, fedcast._fedcast.Study):
        for member in vars(of):
            if not member.startswith("__"):
                assert f"def {member}(" in stub, f"{of.__name__}.{member}"
