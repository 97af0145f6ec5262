"""Tables: columns, types and values of the CSV files, through every reader of Arrow."""

import csv
import json

import pytest

import fedcast

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

TABLES = {"rounds": "rounds.csv", "messages": "bytes.csv", "matrix": "matrix.csv", "clients": "clients.csv"}


@pytest.mark.parametrize("method, file", TABLES.items())
def test_tables_are_the_csv_files(run, method, file):
    table = getattr(run, method)()
    with open(run.path / file) as lines:
        rows = list(csv.DictReader(lines))
    assert table.column_names == list(rows[0]) and len(table) == len(rows) > 0
    dictionary = fedcast.columns(file)
    assert table.column_names == [column["name"] for column in dictionary]
    assert dict(table.units) == {column["name"]: column["unit"] for column in dictionary}
    types = {"int": "int64", "float": "double", "text": "string"}
    arrow = table.to_arrow()
    for column in dictionary:
        assert str(arrow.schema.field(column["name"]).type) == types[column["type"]]
    for mine, row in zip(arrow.to_pylist(), rows):
        for name, cell in row.items():
            if cell == "":
                assert mine[name] is None
            else:
                assert mine[name] == type(mine[name])(cell)


def test_pandas_and_pyarrow_read_the_interface(run):
    table = run.rounds()
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert pyarrow.table(table).to_pandas().equals(frame)
    assert pyarrow.RecordBatchReader.from_stream(table).read_all().num_rows == 4
    meaning = pyarrow.schema(table).field("loss").metadata[b"meaning"].decode()
    assert meaning.startswith("loss at the end of local training")


def test_polars_reads_the_interface(run):
    polars = pytest.importorskip("polars")
    frame = run.rounds().to_polars()
    assert frame["bytes_up"].to_list() == list(run.rounds().to_pandas().bytes_up)
    types = run.events().to_polars()["type"].cast(polars.String)
    assert types[0] == "run_started"


def test_table_outlives_its_run(run, tmp_path):
    arrow = run.messages().to_arrow()
    (run.path / "bytes.csv").unlink()
    assert arrow.num_rows == len(arrow.to_pylist())


def test_other_tables_are_read_by_name(run):
    assert run.table("participation").column_names == run.table("participation.csv").column_names
    with pytest.raises(fedcast.FedcastError, match="no table `nothing.csv`"):
        run.table("nothing")


def test_events_are_the_journal(run):
    events = run.events().to_arrow().to_pylist()
    with open(run.path / "events.jsonl") as lines:
        entries = [json.loads(line) for line in lines]
    entries = [entry for entry in entries if "seal" not in entry]
    assert len(events) == len(entries)
    for event, entry in zip(events, entries):
        of = entry["event"]
        assert (event["seq"], event["at"], event["type"]) == (entry["seq"], entry["at"], of["type"])
        for key in ("round", "task", "phase", "client", "participant", "direction", "outcome", "sent",
                    "latency", "samples", "work_ns", "aggregated", "reason"):
            assert event[key] == of.get(key), key
        if "bytes" in of:
            parts = ("header", "meta", "table", "payload")
            assert event["bytes"] == sum(of["bytes"][part] for part in parts)
            assert event["kind"] == "client"
        numbers = entry.get("numbers", {})
        metrics = numbers.get("metrics", {})
        assert event["digest"] == numbers.get("digest")
        assert event["loss"] == metrics.get("loss_last_epoch", metrics.get("loss"))
        if numbers.get("tasks"):
            assert event["correct"] == sum(score["correct"] for score in numbers["tasks"])
            assert event["total"] == sum(score["total"] for score in numbers["tasks"])
        more = json.loads(event["more"]) if event["more"] else {}
        known = {"type", "bytes", *(key for key, value in event.items() if value is not None)}
        left = {key: value for key, value in of.items() if key not in known}
        left.update({key: value for key, value in numbers.items() if key != "digest"})
        assert more == left


def test_events_add_up_to_the_tables(run):
    events, rounds = run.events().to_pandas(), run.rounds().to_pandas()
    up = events[(events.type == "frame_charged") & (events.direction == "up")]
    assert list(up.groupby("round").bytes.sum()) == list(rounds.bytes_up)
    messages = run.messages().to_pandas()
    assert messages[messages.direction == "up"].bytes.sum() == rounds.bytes_up.sum()


def test_damaged_journal_is_an_error_with_its_line(run):
    journal = run.path / "events.jsonl"
    lines = journal.read_text().splitlines()
    lines[6] = lines[6][:-5]
    journal.write_text("\n".join(lines))
    with pytest.raises(fedcast.RecordingError, match="line 7: "):
        run.events()


def test_columns_of_another_version_are_refused(run):
    file = run.path / "rounds.csv"
    file.write_text(file.read_text().replace("round,", "Round,", 1))
    with pytest.raises(fedcast.RecordingError, match="replay"):
        run.rounds()
