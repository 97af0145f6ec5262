#!/usr/bin/env python3
"""Tries every exchanged operator of some source files and names those that no test notices.

    tools/mutants/run.py src/methods/hepco
    tools/mutants/run.py src/numerics/ridge.rs src/policy --every 4

A copy of the project is compiled once, with all mutants in it and a number in the environment that chooses one (`main.rs`
beside this file). Each mutant is held against the unit tests of its file's folder, then against those of `tests/methods` with
the folder's name; with --wide, where these miss it, against all unit tests of its floor and all of `tests/methods`, too. What
fails to end in time counts as noticed. The copy and everything compiled lie in target/mutants/all, missed mutants in missed.tsv there.
"""

import argparse
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
    parser.add_argument("--wide", action="store_true", help="all tests of the floor and of methods for what is missed")
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
    tests = re.compile(r"(^|/)(tests|vectors|golden)(/|\.rs$)")
    return [file for file in found if not tests.search(file)]


def build(work, files):
    """Writes the copy with as many mutants as compile, and builds its tests. Mutants by number: file, line, exchange."""
    copy, left_out = work / "copy", work / "left-out"
    copy.mkdir(parents=True, exist_ok=True)
    for name in ["src", "tests", "benches", "tools", "scenarios"]:
        shutil.rmtree(copy / name, ignore_errors=True)
        shutil.copytree(PROJECT / name, copy / name)
    for name in ["Cargo.toml", "Cargo.lock", "README.md"]:
        shutil.copy(PROJECT / name, copy / name)
    library = (copy / "src/lib.rs").read_text()
    inner = library.index("\nuse ") if "\nuse " in library else library.index("\npub mod ")
    library = library[:inner] + "\n#![allow(warnings)]\n" + library[inner:] + SWITCH
    tool_target = work / "tool"
    tool = ["cargo", "build", "--quiet", "--release", "--manifest-path", HERE / "Cargo.toml"]
    subprocess.run(tool, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(tool_target)})
    environment = {**os.environ, "CARGO_TARGET_DIR": str(work / "target")}
    skipped = set()
    while True:
        for file in files:
            shutil.copy(PROJECT / "src" / file, copy / "src" / file)
        (copy / "src/lib.rs").write_text(library)
        left_out.write_text("".join(f"{number}\n" for number in sorted(skipped)))
        command = [tool_target / "release/mutants", copy / "src", left_out, *files]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
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
    mutants = {}
    for line in listed.splitlines():
        number, file, at, what = line.split("\t")
        mutants[int(number)] = (file, int(at), what)
    return programs, mutants


SWITCH = """
/// Which mutant is in force.
#[doc(hidden)]
pub mod mutant {
    static CHOSEN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
    });

    #[doc(hidden)]
    pub fn is(number: u32) -> bool {
        *CHOSEN == number
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


def stages(file, wide):
    """Tests of a mutant's file, from the nearest on."""
    floor, *rest = file.removesuffix(".rs").split("/")
    near = rest[0] if rest else floor
    nearest = [("lib", f"{floor}::{near}"), ("methods", near)]
    return nearest + [("lib", f"{floor}::"), ("methods", "")] if wide else nearest


class Trials:
    def __init__(self, programs, copy):
        self.programs, self.copy, self.seconds = programs, copy, {}

    def fails(self, stage, mutant, limit):
        """What tests say that fail."""
        program, name = stage
        command = [self.programs[program], "--test-threads", "1", *([name] if name else [])]
        environment = {**os.environ, "MUTANT": str(mutant), "RUST_BACKTRACE": "0", "RAYON_NUM_THREADS": "1"}
        if (PROJECT / "../shared/data/golden").is_dir():
            environment.setdefault("FEDCAST_GOLDEN", str((PROJECT / "../shared/data/golden").resolve()))
        try:
            run = subprocess.run(command, cwd=self.copy, env=environment, timeout=limit, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return "takes too long"
        return "" if run.returncode == 0 else run.stdout + run.stderr

    def pass_as_they_are(self, stage):
        began = time.monotonic()
        if failure := self.fails(stage, 0, None):
            sys.exit(f"{failure}\n{stage} fails without a mutant")
        self.seconds[stage] = time.monotonic() - began

    def missed(self, number, stages):
        return not any(self.fails(stage, number, 20 + 5 * self.seconds[stage]) for stage in stages)


def main():
    options = arguments()
    files = sources(options.paths)
    programs, mutants = build(options.work, files)
    chosen = {number: mutant for number, mutant in mutants.items() if number % options.every == 0}
    trials = Trials(programs, options.work / "copy")
    tests = {number: stages(file, options.wide) for number, (file, *_) in chosen.items()}
    for stage in sorted({stage for of in tests.values() for stage in of}):
        trials.pass_as_they_are(stage)
    print(f"{len(chosen)} mutants", flush=True)
    counts, missed = {}, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(trials.missed, number, of): number for number, of in tests.items()}
        for done in concurrent.futures.as_completed(running):
            number = running[done]
            file, line, what = mutants[number]
            tried, left = counts.get(file, (0, 0))
            counts[file] = (tried + 1, left + done.result())
            if done.result():
                missed.append((file, line, what, number))
                print(f"missed: src/{file}:{line}: {what}", flush=True)
    with open(options.work / "missed.tsv", "w") as table:
        table.writelines(f"src/{file}\t{line}\t{what}\t{number}\n" for file, line, what, number in sorted(missed))
    for file, (tried, left) in sorted(counts.items()):
        print(f"{tried:5} mutants, {left:3} missed  src/{file}")
    print(f"{len(chosen)} mutants, {len(missed)} missed")


main()
