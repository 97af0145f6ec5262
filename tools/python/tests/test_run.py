"""Runs: digests of the program, progress, interrupts, resume, verify, what-if, fork."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import fedcast


def test_digests_are_those_of_the_program(scenario, run, tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(scenario.to_toml())
    words = ["run", file, "-o", tmp_path / "by-program", "-q"]
    subprocess.run([sys.executable, "-m", "fedcast", *words], check=True, capture_output=True)
    assert run.digests == fedcast.Run.open(tmp_path / "by-program").digests
    assert run.digests == scenario.run(out=tmp_path / "two", workers=2).digests


def test_progress_counts_rounds_and_bytes(scenario, tmp_path):
    heard = []
    run = scenario.run(out=tmp_path / "run", progress=heard.append)
    closed = [now for now in heard if now.event == "round_closed"]
    assert [(now.round, now.task, now.tasks) for now in closed] == [(1, 1, 2), (2, 1, 2), (3, 2, 2), (4, 2, 2)]
    assert all(now.aggregated == 4 for now in closed)
    rounds = run.rounds().to_pandas()
    assert [now.bytes_up for now in closed] == list(rounds.bytes_up.cumsum())
    assert [now.bytes_down for now in closed] == list(rounds.bytes_down.cumsum())
    assert heard[-1].accuracy == pytest.approx(rounds.accuracy_seen.iloc[-1])


def test_progress_must_be_callable(scenario, tmp_path):
    with pytest.raises(TypeError):
        scenario.run(out=tmp_path / "run", progress=3)


def test_exception_of_callback_ends_the_run_and_it_resumes(scenario, run, tmp_path):
    class Stop(Exception):
        pass

    def stop(now):
        raise Stop(now.round)

    longer = fedcast.Scenario.load(run.path / "scenario.effective.toml", {"federation.rounds": 40})
    with pytest.raises(Stop):
        longer.run(out=tmp_path / "stopped", progress=stop)
    stopped = fedcast.Run.open(tmp_path / "stopped")
    assert stopped.status == "interrupted" and stopped.digests is None
    whole = longer.run(out=tmp_path / "whole")
    with pytest.warns(UserWarning, match="resuming after round"):
        assert stopped.resume().digests == whole.digests


def test_ctrl_c_interrupts(table, tmp_path):
    long = fedcast.Scenario.from_dict(table, {"federation.rounds": 100_000})
    # A shell starts programs in the background with Ctrl-C ignored, and Python keeps that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    before.start()
    with pytest.raises(KeyboardInterrupt):
        long.run(out=tmp_path / "long")
    assert fedcast.Run.open(tmp_path / "long").status == "interrupted"


def test_gil_is_free_while_a_run_computes(table, tmp_path):
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            ended.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    fedcast.Scenario.from_dict(table, {"federation.rounds": 200}).run(out=tmp_path / "run")
    ended.set()
    thread.join()
    assert counted[0] > 20


def test_existing_run_is_kept_unless_forced(scenario, run):
    with pytest.raises(fedcast.RunExistsError) as caught:
        scenario.run(out=run.path)
    assert caught.value.exit_code == 4 and "--force" in caught.value.help
    assert scenario.run(out=run.path, force=True).digests == run.digests


def test_no_run_directory_is_an_error(tmp_path):
    with pytest.raises(fedcast.FedcastError, match="not a run directory"):
        fedcast.Run.open(tmp_path)


def test_verify_finds_a_changed_journal(run):
    verified = run.verify(workers=1)
    assert verified.digests == run.digests and not verified.partial
    assert verified.entries == len(run.events())
    journal = run.path / "events.jsonl"
    text = journal.read_text()
    journal.write_text(text.replace('"samples":', '"samples":1', 1))
    with pytest.raises(fedcast.DivergedError) as caught:
        run.verify()
    assert caught.value.exit_code == 10


def test_what_if_times_the_run_again(run, tmp_path):
    found = run.what_if({"links.preset": "mobile"}, out=tmp_path / "mobile")
    assert found.recorded["virtual_s"] == 0 < found.retimed["virtual_s"]
    assert found.retimed["sent"] == found.recorded["sent"]
    closed, recorded = found.retimed["closed_s"], found.recorded["closed_s"]
    assert closed.keys() == recorded.keys() and "0" in closed
    assert all(closed[number] > recorded[number] for number in closed)
    assert (tmp_path / "mobile" / "rounds.csv").exists()
    with pytest.raises(fedcast.FedcastError):
        run.what_if({"client.epochs": 2})


def test_fork_shares_the_first_task(run, tmp_path):
    with pytest.raises(fedcast.FedcastError, match="nothing is changed"):
        run.fork(1)
    changed = {"client.optimizer.lr": 0.5}
    fork = run.fork(1, changed, tmp_path / "fork", recompute=True)
    mine, others = run.rounds().to_pandas(), fork.rounds().to_pandas()
    assert mine.loss[:2].equals(others.loss[:2]) and not mine.loss[2:].equals(others.loss[2:])
    assert fork.manifest["forked"]["after_task"] == 1


def test_manifest_and_summary_are_the_documents(run, scenario):
    assert run.status == "done" and run.manifest["scenario"]["hash"] == scenario.hash
    assert run.summary["accuracy"]["faa"] == pytest.approx(
        run.matrix().to_pandas().query("after_task == 2").accuracy.mean()
    )
