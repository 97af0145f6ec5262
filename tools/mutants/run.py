#!/usr/bin/env python3
"""Tries every exchanged operator of some source files and names those that no test notices.

    tools/mutants/run.py src/methods/hepco
    tools/mutants/run.py src/numerics/ridge.rs src/policy --every 4

A copy of the project is compiled once, with all mutants in it and a number in the environment that chooses one (`main.rs`
beside this file). Then every unit test and every test of `tests/methods` runs once and says which mutants it comes upon, and each
mutant is held against the tests that do, first those that noticed others of its file, then those that are nearest by name, then
the quickest, until one fails or a minute of tests is over. What fails to end in time counts as noticed, what no test comes upon does not. The copy
and everything compiled lie in target/mutants/all, with missed mutants in missed.tsv; `--go-on` takes up there what was broken off.

Missed mutants that were looked at are listed in known.tsv beside this file, each with the reason why no test tells it: file,
exchange, the line of code as it stands. They are counted and not named again.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="files or folders below src")
    parser.add_argument("--every", type=int, default=1, help="only every n-th mutant")
    parser.add_argument("--again", type=Path, help="only mutants that such a table says were missed")
    parser.add_argument("--seconds", type=float, default=60, help="tests that are held against a mutant take so long without it")
    parser.add_argument("--go-on", action="store_true", help="go on with what the last call built, and leave out what it tried")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants tried at a time")
    parser.add_argument("--work", type=Path, default=PROJECT / "target/mutants/all", help="where it is built")
    return parser.parse_args()


def sources(paths):
    """Files of the library that may be mutated, relative to src."""
    found = []
    for path in paths:
        path = PROJECT / path
        files = sorted(path.rglob("*.rs")) if path.is_dir() else [path]
        found += [str(file.relative_to(PROJECT / "src")) for file in files]
    return [file for file in found if not is_test(file)]


def is_test(file):
    """Whether a module, or one around it, is compiled for tests alone."""
    path = PROJECT / "src" / file
    names = [*Path(file).parent.parts, path.stem]
    for depth in range(len(names)):
        around = PROJECT / "src" / Path(*names[:depth])
        parents = [around / "lib.rs", around / "mod.rs", around.with_suffix(".rs")]
        texts = [parent.read_text() for parent in parents if parent.is_file() and parent != path]
        declared = rf"#\[cfg\(test\)\]\s*(pub(\([^)]*\))? )?mod {names[depth]};"
        if any(re.search(declared, text) for text in texts):
            return True
    return False


def build(work, files, is_chosen):
    """Writes the copy with as many chosen mutants as compile, and builds its tests. Mutants by number: file, line, exchange."""
    copy, left_out = work / "copy", work / "left-out"
    copy.mkdir(parents=True, exist_ok=True)
    for name in ["src", "tests", "benches", "tools", "scenarios"]:
        shutil.rmtree(copy / name, ignore_errors=True)
        shutil.copytree(PROJECT / name, copy / name)
    for name in ["Cargo.toml", "Cargo.lock", "README.md"]:
        shutil.copy(PROJECT / name, copy / name)
    library = (copy / "src/lib.rs").read_text()
    inner = library.index("\nuse ") if "\nuse " in library else library.index("\npub mod ")
    library = library[:inner] + "\n#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n" + library[inner:] + SWITCH
    tool_target = work / "tool"
    tool = ["cargo", "build", "--quiet", "--release", "--manifest-path", HERE / "Cargo.toml"]
    subprocess.run(tool, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(tool_target)})
    environment = {**os.environ, "CARGO_TARGET_DIR": str(work / "target")}

    def write(unswitched):
        """Writes the files anew with a switch for every mutant but some."""
        for file in files:
            shutil.copy(PROJECT / "src" / file, copy / "src" / file)
        (copy / "src/lib.rs").write_text(library)
        left_out.write_text("".join(f"{number}\n" for number in sorted(unswitched)))
        command = [tool_target / "release/mutants", copy / "src", left_out, *files]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return {int(number): (file, int(at), what) for number, file, at, what in (line.split("\t") for line in lines)}

    everything = write(set())
    unwanted = {number for number, mutant in everything.items() if not is_chosen(number, *mutant)}
    skipped = set()
    while True:
        mutants = write(unwanted | skipped)
        command = ["cargo", "check", "--lib", "--message-format=json", "--quiet"]
        checked = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
        wrong = culprits(copy, checked.stdout)
        if checked.returncode == 0:
            break
        if not wrong - skipped:
            sys.exit(f"the copy does not compile, and not for a mutant:\n{checked.stderr}")
        skipped |= wrong
        print(f"{len(skipped)} mutants do not compile", flush=True)
    command = ["cargo", "test", "--no-run", "--lib", "--test", "methods", "--message-format=json", "--quiet"]
    built = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"tests of the copy do not compile:\n{built.stderr}")
    programs = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["kind"] != ["bin"]:
            programs["methods" if message["target"]["kind"] == ["test"] else "lib"] = message["executable"]
    return programs, mutants


SWITCH = """
/// Which mutant is in force.
#[doc(hidden)]
pub mod mutant {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    static CHOSEN: LazyLock<u32> =
        LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0));
    static REACHED: LazyLock<Option<std::ffi::OsString>> = LazyLock::new(|| std::env::var_os("MUTANTS_REACHED"));
    static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];

    #[doc(hidden)]
    pub fn is(number: u32) -> bool {
        if let Some(path) = &*REACHED
            && !SEEN[number as usize].load(Relaxed)
            && !SEEN[number as usize].swap(true, Relaxed)
        {
            note(number, path);
        }
        *CHOSEN == number
    }

    #[cold]
    fn note(number: u32, path: &std::ffi::OsStr) {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes())).expect("the file can be written");
    }
}
"""


def culprits(copy, messages):
    """Numbers of the mutants in which a compiler's errors lie."""
    found = set()
    for line in messages.splitlines():
        message = json.loads(line).get("message") or {}
        if message.get("level") != "error":
            continue
        for span in message.get("spans", []):
            if span["is_primary"] and (number := around(copy, span)) is not None:
                found.add(number)
    return found


def around(copy, span):
    """The innermost mutant whose branch a place is in, or else whose whole expression."""
    text = (copy / span["file_name"]).read_bytes()
    place, inside = span["byte_start"], []
    for switch in re.finditer(rb"\(if crate::mutant::is\((\d+)u32\) \{", text):
        if switch.start() > place:
            break
        branch, whole = closing(text, switch.end() - 1), closing(text, switch.start())
        if place <= whole:
            inside.append((place <= branch, switch.start(), int(switch[1])))
    return max(inside)[2] if inside else None


def closing(text, opening):
    """Where the bracket that opens at a place closes; strings and lifetimes of this code have none that do not match."""
    pairs = {ord("("): ord(")"), ord("{"): ord("}"), ord("["): ord("]")}
    depth = 0
    for at in range(opening, len(text)):
        if text[at] in pairs:
            depth += 1
        elif text[at] in pairs.values():
            depth -= 1
            if depth == 0:
                return at
    return len(text)


class Trials:
    """The tests of the copy, how long each takes, which mutants it comes upon, and how many of each file it noticed."""

    def __init__(self, programs, work, budget):
        self.programs, self.copy, self.budget = programs, work / "copy", budget
        self.reached, self.seconds, self.by_mutant, self.noticed = work / "reached", {}, {}, collections.Counter()
        self.reached.mkdir(exist_ok=True)

    def run(self, program, names, limit=None, **environment):
        """What tests say that fail."""
        command = [self.programs[program], "--test-threads", "1", "--exact", *names]
        environment = {**os.environ, "RUST_BACKTRACE": "0", "RAYON_NUM_THREADS": "1", **environment}
        if (PROJECT / "../shared/data/golden").is_dir():
            environment.setdefault("FEDCAST_GOLDEN", str((PROJECT / "../shared/data/golden").resolve()))
        try:
            run = subprocess.run(command, cwd=self.copy, env=environment, timeout=limit, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return "takes too long"
        return "" if run.returncode == 0 else run.stdout + run.stderr

    def explore(self, test):
        """Runs a test as it is."""
        path = self.reached / test.replace(" ", "-").replace(":", "_")
        path.unlink(missing_ok=True)
        began = time.monotonic()
        program, name = test.split(" ")
        if failure := self.run(program, [name], MUTANTS_REACHED=str(path)):
            sys.exit(f"{failure}\n{test} fails without a mutant")
        self.seconds[test] = time.monotonic() - began
        return test, [int(line) for line in path.read_text().split()] if path.exists() else []

    def explore_all(self, pool):
        tests = []
        for program, path in self.programs.items():
            listed = subprocess.run([path, "--list"], cwd=self.copy, capture_output=True, text=True, check=True).stdout
            tests += [f"{program} {line.removesuffix(': test')}" for line in listed.splitlines() if line.endswith(": test")]
        for test, numbers in pool.map(self.explore, tests):
            for number in numbers:
                self.by_mutant.setdefault(number, []).append(test)

    def missed(self, number, file):
        """Whether no test notices a mutant of a file."""
        words = {*Path(file).with_suffix("").parts[1:]} - {"mod"}
        nearness = lambda test: len(words.intersection(test.replace(" ", "::").split("::")))
        urgency = lambda test: (-self.noticed[file, test], -nearness(test), self.seconds[test])
        tests = [test for test in self.by_mutant.get(number, []) if self.seconds[test] <= self.budget]
        tests, spent, at_once = sorted(tests, key=urgency), 0.0, 0.5
        while tests and spent < self.budget:
            # Those of one program that take a few seconds together; one process has no more to begin than one test.
            program, count, seconds = tests[0].split(" ")[0], 0, 0.0
            while count < len(tests) and tests[count].startswith(program) and (count == 0 or seconds < at_once):
                seconds += self.seconds[tests[count]]
                count += 1
            names = [test.split(" ")[1] for test in tests[:count]]
            if failure := self.run(program, names, 20 + 5 * seconds, MUTANT=str(number)):
                failed = [test for test, name in zip(tests, names) if f"test {name} ... FAILED" in failure]
                self.noticed.update((file, test) for test in failed)
                return False
            tests, spent, at_once = tests[count:], spent + seconds, min(4.0, 2 * at_once)
        return True


def listed(table):
    """Mutants of a table: file, exchange, line of code."""
    return {tuple(line.split("\t")[:3]) for line in table.read_text().splitlines()}


def main():
    options = arguments()
    files, known = sources(options.paths), listed(HERE / "known.tsv")
    lines = {file: (PROJECT / "src" / file).read_text().splitlines() for file in files}
    place = lambda file, line, what: (f"src/{file}", what, " ".join(lines[file][line - 1].split()))
    again = options.again and listed(options.again)
    is_chosen = lambda number, *mutant: number % options.every == 0 and (not again or place(*mutant) in again)
    state, outcomes = options.work / "state.json", options.work / "outcomes.tsv"
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if options.go_on:
            kept = json.loads(state.read_text())
            chosen = {int(number): tuple(mutant) for number, mutant in kept["mutants"].items()}
            trials = Trials(kept["programs"], options.work, options.seconds)
            trials.seconds = kept["seconds"]
            trials.by_mutant = {int(number): tests for number, tests in kept["by_mutant"].items()}
        else:
            programs, chosen = build(options.work, files, is_chosen)
            trials = Trials(programs, options.work, options.seconds)
            trials.explore_all(pool)
            kept = {"programs": programs, "mutants": chosen, "seconds": trials.seconds, "by_mutant": trials.by_mutant}
            state.write_text(json.dumps(kept))
            outcomes.write_text("")
        print(f"{len(chosen)} mutants, of which {len(chosen.keys() - trials.by_mutant)} no test comes upon", flush=True)
        results = {int(number): outcome == "missed" for number, outcome in map(str.split, outcomes.read_text().splitlines())}
        untried = {number for number in chosen if (place(*chosen[number]) in again if again else number not in results)}
        # Scattered over the files, so that what is broken off has tried some of each.
        left = sorted(untried, key=lambda number: number * 2654435761 % 2**32)
        running = {pool.submit(trials.missed, number, chosen[number][0]): number for number in left}
        for done in concurrent.futures.as_completed(running):
            number = running[done]
            results[number] = done.result()
            with open(outcomes, "a") as table:
                table.write(f"{number}\t{'missed' if done.result() else 'noticed'}\n")
            if done.result() and place(*chosen[number]) not in known:
                file, line, what = chosen[number]
                unseen = "" if number in trials.by_mutant else " (no test comes upon it)"
                print(f"missed: src/{file}:{line}: {what}{unseen}", flush=True)
    missed = sorted(chosen[number] for number, is_missed in results.items() if is_missed)
    unexplained = [mutant for mutant in missed if place(*mutant) not in known]
    with open(options.work / "missed.tsv", "w") as table:
        table.writelines("\t".join([*place(*mutant), str(mutant[1])]) + "\n" for mutant in unexplained)
    tried, left = (collections.Counter(mutant[0] for mutant in mutants) for mutants in [chosen.values(), unexplained])
    for file in sorted(tried):
        print(f"{tried[file]:5} mutants, {left[file]:3} missed  src/{file}")
    print(f"{len(chosen)} mutants, {len(unexplained)} missed and {len(missed) - len(unexplained)} known")


main()
