//! Promise: the guide's page of tables and figures names the scenario files that are there, and all of them; it leaves no
//! item of a paper out, and sizes that it compares with published ones are those of plans.

use std::collections::BTreeSet;

use fedcast::experiment::assemble::blueprint;
use fedcast::experiment::plan::{Faults, Plan, plan};
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

/// Tables and figures of each paper, and sections that have numbers of their own, under the title that the page gives it.
const ITEMS: [(&str, &[&str]); 5] = [
    (
        "HGP",
        &[
            "table 1",
            "table 2",
            "table 3",
            "table A",
            "table B",
            "figure 1",
            "figure 2",
            "figure 3",
            "figure A",
            "figure B",
            "figure C",
            "appendix B",
            "appendix E",
        ],
    ),
    (
        "STSA",
        &[
            "table 1",
            "table 2",
            "table 3",
            "table 4",
            "table 5",
            "table 6",
            "table 7",
            "figure 1",
            "figure 2",
            "figure 3",
            "figure 4 (top)",
            "figure 4 (bottom)",
            "figure 5",
            "figures 6 and 7",
            "figure 8",
            "proposition 3.2",
            "theorem 3.3",
        ],
    ),
    (
        "HePCo",
        &[
            "table 1",
            "table 2",
            "table A",
            "figure 1",
            "figure 2",
            "figure A",
            "appendix A",
            "appendix C",
        ],
    ),
    (
        "FedHAF",
        &[
            "table 1",
            "table 2",
            "table 3",
            "table 4",
            "table 5",
            "table 6",
            "figure 1",
            "figure 2",
            "figure 3",
            "figure 4",
            "figure 5",
            "theorems 1 to 4",
        ],
    ),
    (
        "C2Prompt",
        &["main table", "ablation", "forward transfer", "0.6 %", "figure 5", "sensitivities"],
    ),
];

/// What comes after the heading that begins with `title`, up to the next.
fn section(title: &str) -> &'static str {
    let found = PAGE.split("\n## ").find(|section| section.starts_with(title));
    found.unwrap_or_else(|| panic!("no section {title}"))
}

/// Cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn every_item_of_a_paper_is_on_the_page() {
    for (paper, items) in ITEMS {
        let first_cells: Vec<String> = section(paper)
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|row| cells(row)[0].to_lowercase())
            .collect();
        for item in items {
            // Two tables in one row stand as "tables 1 and 2".
            let several =
                item.strip_prefix("table ").map(|which| (which.to_lowercase(), "tables "));
            let named = first_cells.iter().any(|cell| {
                let together = several.as_ref().is_some_and(|(which, tables)| {
                    cell.strip_prefix(tables)
                        .is_some_and(|rest| rest.split([' ', ',']).any(|w| w == which))
                });
                together || cell.contains(&item.to_lowercase())
            });
            assert!(named, "{paper}: {item} is on no row");
        }
    }
}

/// A method that a row without files calls missing is one that nobody can run.
#[test]
fn methods_that_the_page_calls_missing_are_not_here() {
    let registry = Registry::builtin();
    let mut missed = BTreeSet::new();
    for row in ITEMS.iter().flat_map(|(paper, _)| section(paper).lines()) {
        let [item, "", missing] = cells(row)[..] else { continue };
        let named = if missing.starts_with("the method") { item } else { missing };
        let words = named.split(|c: char| !c.is_alphanumeric() && c != '-');
        missed.extend(words.filter(|word| word.chars().filter(|c| c.is_uppercase()).count() > 2));
    }
    for name in ["TARGET", "MFCL", "LANDER", "FedCIL", "FedWEIT"] {
        assert!(missed.contains(name), "{name}: {missed:?}");
    }
    for name in missed {
        assert!(registry.find(&name.to_lowercase()).is_err(), "{name} is not missing");
    }
}

fn planned(file: &str) -> Plan {
    let methods = Registry::builtin();
    let scenario = Scenario::load(&scenarios().join(file), &[], &methods);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}")).scenario;
    let blueprint = blueprint(&scenario, &methods).expect("a blueprint");
    plan(&blueprint, Faults::Off).expect("plans")
}

/// MiB that one client uploads: of statistics, where there is a phase of them.
fn uploaded(plan: &Plan) -> f64 {
    let phase = plan.one_client.iter().find(|row| row.phase == "statistics");
    phase.unwrap_or(&plan.one_client[0]).up.payload as f64 / f64::from(1 << 20)
}

#[test]
fn sizes_that_the_page_compares_are_those_of_plans() {
    let section = section("Bytes and sizes");
    let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains(".toml`"));
    let mut units = Vec::new();
    for row in rows {
        let [_, here, file, _] = cells(row)[..] else { panic!("{row}") };
        let plan = planned(file.trim_matches('`'));
        let (number, unit) = here.split_once(' ').expect("a number and its unit");
        let is = match unit {
            "MiB" => format!("{:.2}", uploaded(&plan)),
            "%" => format!(
                "{:.2}",
                100.0 * plan.numbers_down() as f64 / plan.backbone.parameters as f64
            ),
            _ => plan.numbers_down().to_string(),
        };
        assert_eq!(number, is, "{row}");
        units.push(unit);
    }
    assert_eq!(units, ["MiB", "MiB", "MiB", "MiB", "MiB", "%", "%", "numbers"]);
}

/// Published numbers of the page's last table are those that files have; measured ones stand on the study's page.
#[test]
fn accuracies_that_the_page_compares_stand_where_it_says() {
    let expected = include_str!("expected.csv");
    let section = section("Accuracies");
    let numbers = |text: &str| -> Vec<f64> {
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    // What `[expected]` has, and of other degrees of imbalance what headers have.
    let mut of_files: Vec<f64> =
        expected.lines().filter_map(|line| line.rsplit(',').next()?.parse().ok()).collect();
    for File { name, .. } in FILES.iter() {
        let text = std::fs::read_to_string(scenarios().join(name)).expect("readable");
        let beta = text.lines().filter(|line| line.starts_with("#   --set partition.beta="));
        of_files.extend(beta.flat_map(numbers));
    }
    let mut looked = 0;
    for row in section.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let [item, published, measured, study] = cells(row)[..] else { panic!("{row}") };
        let study = study.split('`').nth(1).expect("a study");
        let page = std::fs::read_to_string(scenarios().join(format!("studies/{study}.md")))
            .expect("a page");
        let near =
            |all: &[f64], number: f64| all.iter().any(|other| (other - number).abs() < 0.0501);
        let on_the_page = numbers(&page);
        for number in numbers(measured) {
            assert!(near(&on_the_page, number), "{study} has no {number}: {item}");
            looked += 1;
        }
        if item.contains(" table ") && item.contains('%') && !item.contains("table 3, FAA") {
            for number in numbers(published) {
                assert!(near(&of_files, number), "no file has {number}: {item}");
            }
        }
    }
    assert!(looked > 20, "{looked}");
}
