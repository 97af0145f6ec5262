"""Studies: cells as processes of this interpreter, and their tables."""

import pytest

import fedcast


@pytest.fixture
def study(scenario, tmp_path):
    (tmp_path / "small.toml").write_text(scenario.to_toml())
    file = tmp_path / "small.study.toml"
    file.write_text(
        'schema = 2\nbase = "small.toml"\nreplicates = 2\n[axes]\n'
        'rounds = { key = "federation.rounds", values = [1, 2] }\n'
    )
    return fedcast.Study.load(file, out=tmp_path / "study")


def test_study_runs_its_cells_and_has_their_table(study):
    assert [cell.status for cell in study.cells()] == ["waiting"] * 4
    heard = []
    study.run(jobs=2, progress=heard.append)
    assert sorted(now.event for now in heard) == ["begun"] * 4 + ["done"] * 4
    assert {now.ended for now in heard if now.event == "done"} == {1, 2, 3, 4}
    table = study.table().to_pandas()
    assert list(table.rounds) == [1, 2] and list(table.n) == [2, 2]
    for cell in study.cells():
        assert cell.status == "done" and cell.error is None
        assert cell.run.manifest["seeds"]["run"] == cell.seed
    faa = {rounds: [] for rounds in (1, 2)}
    for cell in study.cells():
        faa[len(cell.run.rounds()) // 2].append(cell.run.summary["accuracy"]["faa"])
    for row in table.itertuples():
        assert row.faa_mean == pytest.approx(sum(faa[row.rounds]) / 2)
    assert len(study.rounds()) == 2 * (2 + 4) and len(study.cells_table()) == 4


def test_only_selects_cells(study):
    study.run(only="rounds=2,seed=1")
    assert [cell.status for cell in study.cells()].count("done") == 1
    with pytest.raises(fedcast.FedcastError):
        study.run(only=["nothing=1"])


def test_failed_cells_say_why(scenario, tmp_path):
    (tmp_path / "small.toml").write_text(scenario.to_toml())
    file = tmp_path / "bad.study.toml"
    file.write_text(
        'schema = 2\nbase = "small.toml"\n[axes]\nsamples = { key = "partition.min_samples", values = [2, 1000] }\n'
    )
    study = fedcast.Study.load(file, out=tmp_path / "bad").run()
    good, bad = study.cells()
    assert (good.status, bad.status) == ("done", "failed") and "1000" in bad.error


def test_errors_of_a_study_have_their_place(tmp_path):
    file = tmp_path / "wrong.study.toml"
    file.write_text("schema = 2\nbase = \"small.toml\"\nreplicats = 2\n")
    with pytest.raises(fedcast.ScenarioError) as caught:
        fedcast.Study.load(file)
    assert caught.value.line == 3
