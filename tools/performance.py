#!/usr/bin/env python3
"""Measures the figures of src/guide/performance.md, and prints its table.

    tools/performance.py                          build the benches of this checkout, run them, print the table
    tools/performance.py --write [engine cohort]  the same, and put the rows of these benches into the page
    tools/performance.py --before ../other        compare: both run in turn, with a column each and their ratio
    tools/performance.py --quick engine           one short run of this bench: shows that it works, measures little

Benches print figures on lines that begin with `figure`; this script takes medians over its repeats, nothing else. A side
is a checkout, whose benches are built, or a folder of built ones (such as target/release/deps). With two sides, one runs
right after the other, bench by bench, and they change places at every repeat, so that a slow minute strikes both. What a
side does not print is a dash. The machine should do nothing else.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "src/guide/performance.md"
BEGIN, END = "<!-- figures: tools/performance.py -->", "<!-- end of figures -->"
BENCHES = ["engine", "heads", "hgp", "cohort"]
ALONE = "| figure | asked | measured | command |"
COMPARED = "| figure | asked | before | now | ratio | command |"
FIGURE = re.compile(
    r"figure  (?P<name>.*): (?P<value>-?[\d.]+) (?P<unit>[^:]*?)"
    r"(?: \(best [-\d.]+\), asked (?P<asked>at (?:least|most) [\d.]+): \w+)?"
)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", default=BENCHES, help=f"benches to run; default: {' '.join(BENCHES)}")
    parser.add_argument("--before", type=Path, help="side to compare with: a checkout or a folder of built benches")
    parser.add_argument("--now", type=Path, default=PROJECT, help="side that is measured; default: this checkout")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every bench and side")
    parser.add_argument("--quick", action="store_true", help="one short run of every bench and side")
    parser.add_argument("--write", action="store_true", help="put the rows into the page")
    asked = parser.parse_args()
    if asked.write and (asked.before or asked.quick):
        parser.error("--write puts figures into the page that were measured in full and without --before")
    return asked


def programs(side, benches):
    """Returns the program of each bench of a side."""
    if (side / "Cargo.toml").is_file():
        # An older checkout may lack a bench.
        sources = {bench: [side / f"benches/{bench}.rs", side / f"benches/{bench}/main.rs"] for bench in benches}
        known = [bench for bench in benches if any(file.is_file() for file in sources[bench])]
        if not known:
            return {}
        build = ["cargo", "bench", "--no-run", "--message-format=json-render-diagnostics"]
        build += [word for bench in known for word in ("--bench", bench)]
        lines = subprocess.run(build, cwd=side, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        built = [line for line in map(json.loads, lines) if line.get("executable")]
        return {line["target"]["name"]: Path(line["executable"]) for line in built}
    found = {}
    for bench in benches:
        names = re.compile(re.escape(bench) + r"-[0-9a-f]{16}")
        built = [file for file in side.iterdir() if names.fullmatch(file.name) and os.access(file, os.X_OK)]
        if built:
            found[bench] = max(built, key=lambda file: file.stat().st_mtime).resolve()
    return found


def figures(program, quick):
    """Runs a bench; returns its figures by name: number, unit and what is asked."""
    words = [program, "--bench", "--noplot", "--quiet", *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory() as folder:
        place = os.environ | {"CRITERION_HOME": folder}
        ended = subprocess.run(words, cwd=PROJECT, env=place, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        sys.exit(f"{program} ended with {ended.returncode}")
    read = filter(None, map(FIGURE.fullmatch, ended.stdout.splitlines()))
    return {line["name"]: (float(line["value"]), line["unit"], line["asked"]) for line in read}


def measure(sides, benches, repeats, quick):
    """Runs the sides in turn; returns for each (bench, figure) the numbers of every side, its unit and what is asked."""
    table = {}
    for repeat in range(repeats):
        for bench in benches:
            order = range(len(sides)) if repeat % 2 == 0 else reversed(range(len(sides)))
            for side in order:
                if bench not in sides[side]:
                    continue
                print(f"run {repeat + 1} of {repeats}: {sides[side][bench]}", file=sys.stderr)
                for name, (value, unit, asked) in figures(sides[side][bench], quick).items():
                    row = table.setdefault((bench, name), {"values": [[] for _ in sides], "unit": unit, "asked": asked})
                    row["values"][side].append(value)
    return table


def number(value):
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def rows(table, compared):
    """Returns the lines of the table, by bench."""
    lines = {}
    for (bench, name), row in table.items():
        middle = [statistics.median(values) if values else None for values in row["values"]]
        cells = ["–" if value is None else f"{number(value)} {row['unit']}" for value in middle]
        if compared:
            cells.append(f"{middle[1] / middle[0]:.2f}" if all(middle) else "–")
        asked = "–"
        if row["asked"]:
            word, limit = row["asked"].rsplit(" ", 1)
            asked = f"{word} {float(limit):,g} {row['unit']}"
        cells = [name, asked, *cells, f"`cargo bench --bench {bench}`"]
        lines.setdefault(bench, []).append(f"| {' | '.join(cells)} |")
    return lines


def origin(bench, side, repeats):
    """Returns the line that says when, where and of what a bench was measured."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = f"{len(names)} threads of {names[0]}" if names else "an unknown machine"
    ask = ["git", "-C", side, "describe", "--always", "--dirty", "--abbrev=8"]
    commit = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    runs = "one run" if repeats == 1 else f"medians of {repeats} runs"
    return f"* `{bench}`: {runs}, {datetime.date.today()}, {machine}, commit {commit or 'unknown'}"


def block(lines, origins, compared):
    """Returns the table, and below it the origins of its figures."""
    head = [COMPARED if compared else ALONE, "|---" * (6 if compared else 4) + "|"]
    table = [line for bench in lines for line in lines[bench]]
    return "\n".join([*head, *table, "", *origins.values()])


def write(lines, origins):
    """Puts rows and origins into the page, in the place of those of the same benches."""
    page = PAGE.read_text()
    head, rest = page.split(f"{BEGIN}\n")
    before, tail = rest.split(f"\n{END}")
    all_lines, all_origins = {}, {}
    for line in before.splitlines():
        if bench := re.fullmatch(r"\|.*\| `cargo bench --bench (\w+)` \|", line):
            all_lines.setdefault(bench[1], []).append(line)
        elif bench := re.match(r"\* `(\w+)`: ", line):
            all_origins[bench[1]] = line
    text = block(all_lines | lines, all_origins | origins, False)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main():
    asked = arguments()
    repeats = 1 if asked.quick else asked.repeats
    sides = [programs(side, asked.benches) for side in [asked.before, asked.now] if side]
    missing = [bench for bench in asked.benches if not any(bench in side for side in sides)]
    if missing:
        sys.exit(f"no side has the bench {', '.join(missing)}")
    lines = rows(measure(sides, asked.benches, repeats, asked.quick), asked.before is not None)
    origins = {bench: origin(bench, asked.now, repeats) for bench in lines}
    print(block(lines, origins, asked.before is not None))
    if asked.write:
        write(lines, origins)


if __name__ == "__main__":
    main()
