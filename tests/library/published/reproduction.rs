//! Promise: the guide's page of tables and figures names the scenario files that are there, and all of them.

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use super::{FILES, File, matches, scenarios};

const PAGE: &str = include_str!("../../../src/guide/reproduction.md");

/// What stands between backticks in the page's tables.
fn quoted() -> Vec<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| "));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

/// Patterns of scenario files.
fn patterns() -> Vec<&'static str> {
    let words = quoted().into_iter().flat_map(str::split_whitespace);
    words.filter(|word| word.ends_with(".toml")).collect()
}

#[test]
fn files_that_the_page_names_are_there() {
    let files: Vec<&str> = FILES.iter().map(|file| &*file.name).collect();
    assert!(patterns().len() >= 30, "only {:?}", patterns());
    for pattern in patterns() {
        assert!(files.iter().any(|file| matches(pattern, file)), "{pattern} names no file");
    }
}

#[test]
fn the_page_names_every_file_of_a_paper() {
    for File { name: file, .. } in FILES.iter() {
        let named = patterns().iter().any(|pattern| matches(pattern, file));
        assert!(named, "{file} is on no row of src/guide/reproduction.md");
    }
}

/// Changes that a row offers for the files it names give other scenarios, which are valid.
#[test]
fn changes_that_the_page_offers_work() {
    let mut tried = 0;
    for row in PAGE.lines().filter(|line| line.starts_with("| ") && line.contains("`--set ")) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let patterns = quoted.iter().filter(|word| word.ends_with(".toml"));
        let sets = quoted.iter().filter_map(|word| word.strip_prefix("--set "));
        let sets: Vec<&str> = sets.filter(|set| !set.contains("...")).collect();
        for pattern in patterns {
            for File { name: file, .. } in FILES.iter().filter(|file| matches(pattern, &file.name))
            {
                let path = scenarios().join(file);
                let load =
                    |sets: &[Override]| match Scenario::load(&path, sets, &Registry::builtin()) {
                        Ok(loaded) => loaded.scenario,
                        Err(error) => panic!("{file}: {error}"),
                    };
                for set in &sets {
                    let changed = load(&[Override::new(*set)]);
                    assert_ne!(changed.hash(), load(&[]).hash(), "{file} {set}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 0, "the page offers nothing that can be tried");
}
