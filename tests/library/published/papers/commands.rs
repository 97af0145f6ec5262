//! Promise: the headers of the studies of papers say where numbers come from, what is missing, and how to run less;
//! their commands name the file itself, arms that it has, and changes that its scenarios accept.

use fedcast::scenario::Override;

use super::super::scenarios;
use super::{Cell, Paper, STUDIES, load};

/// Comment lines at the start of a file, without their `#`.
fn header(text: &str) -> Vec<&str> {
    text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect()
}

/// Commands of a header; a backslash at the end of a line continues it.
fn commands(text: &str) -> Vec<String> {
    let joined = header(text).join("\n").replace("\\\n", " ");
    joined.lines().filter(|line| line.starts_with("fedcast ")).map(str::to_owned).collect()
}

/// Words of a command, as a shell splits them; single quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Values of an option in a command.
fn values<'a>(words: &'a [String], option: &str) -> Vec<&'a str> {
    let pairs = words.windows(2).filter(|pair| pair[0] == option);
    pairs.map(|pair| pair[1].as_str()).collect()
}

/// Parts `axis=arm` of an `--only`; a comma within an arm's name is followed by no `axis=`.
fn picks(only: &str) -> Vec<(String, String)> {
    let mut picks: Vec<(String, String)> = Vec::new();
    for part in only.split(',') {
        match (part.split_once('='), picks.last_mut()) {
            (Some((axis, arm)), _) if !axis.contains(' ') => picks.push((axis.into(), arm.into())),
            (_, Some((_, arm))) => *arm = format!("{arm},{part}"),
            _ => panic!("{only} is no pick"),
        }
    }
    picks
}

#[test]
fn headers_name_source_metric_gaps_and_a_smaller_run() {
    for Paper { name, text, .. } in STUDIES.iter() {
        let lines = header(text);
        for start in ["Source: ", "Metric", "Missing: "] {
            assert!(lines.iter().any(|line| line.starts_with(start)), "{name} lacks {start}");
        }
        let smaller = commands(text).into_iter().filter(|command| command.contains("--set "));
        assert_eq!(smaller.count(), 1, "{name}");
        for word in lines.join(" ").split_whitespace().filter(|word| word.starts_with("scenarios/"))
        {
            let path = scenarios().join(word.trim_start_matches("scenarios/"));
            assert!(path.is_file(), "{name} names {word}");
        }
    }
}

#[test]
fn the_page_of_tables_names_every_study() {
    let page = include_str!("../../../../src/guide/reproduction.md");
    for Paper { name, .. } in STUDIES.iter() {
        assert!(page.contains(&format!("`{name}`")), "src/guide/reproduction.md lacks {name}");
    }
}

#[test]
fn commands_of_headers_work() {
    let mut checked = 0;
    for Paper { name, text, table, cells, .. } in STUDIES.iter() {
        for command in commands(text) {
            let words = words(&command);
            let file = format!("scenarios/papers/{name}.study.toml");
            assert_eq!(words[..3], ["fedcast", "study", &file], "{name}");
            let only: Vec<_> = values(&words, "--only").into_iter().map(picks).collect();
            for (axis, arm) in only.iter().flatten() {
                assert!(table["axes"][axis].get(arm).is_some(), "{name}: no {axis}={arm}");
            }
            let sets: Vec<Override> =
                values(&words, "--set").into_iter().map(Override::new).collect();
            // The program refuses a change of what a cell sets.
            let set = |cell: &Cell, key: &str| cell.changes.keys().any(|own| own.starts_with(key));
            for key in sets.iter().map(|set| set.text().split('=').next().unwrap_or_default()) {
                assert!(!cells.iter().any(|cell| set(cell, key)), "{name}: a cell sets {key}");
            }
            let chosen = |cell: &&Cell| {
                let fits = |(axis, arm): &(String, String)| cell.arms[axis] == *arm;
                only.is_empty() || only.iter().any(|picks| picks.iter().all(fits))
            };
            let mut cells = cells.iter().filter(chosen).peekable();
            assert!(cells.peek().is_some(), "{name}: {command} runs nothing");
            for cell in cells.filter(|_| !sets.is_empty()) {
                if let Err(error) = load(&cell.file, &cell.changes, &sets) {
                    panic!("{name}: {} {:?}: {error}", cell.file, cell.changes);
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 100, "{checked} cells with changes of a header");
}

#[test]
fn words_and_picks_are_split_as_the_program_does() {
    assert_eq!(
        words("fedcast study a --only 'b=c, 1' -o d"),
        ["fedcast", "study", "a", "--only", "b=c, 1", "-o", "d"]
    );
    let pick = |axis: &str, arm: &str| (axis.to_owned(), arm.to_owned());
    assert_eq!(
        picks("method=STSA-E,setting=CIFAR-100, 0.5"),
        [pick("method", "STSA-E"), pick("setting", "CIFAR-100, 0.5")]
    );
    assert_eq!(picks("point=S = 1"), [pick("point", "S = 1")]);
}
