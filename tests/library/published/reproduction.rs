//! Promise: the guide's page of tables and figures names the scenario files that are there, and all of them; it leaves
//! no item of a paper out; sizes that it compares with published ones are those of plans, published accuracies those of
//! the files that it names, and measured ones those of the named row and column of a study's page.

use std::collections::BTreeSet;

use fedcast::experiment::assemble::blueprint;
use fedcast::experiment::plan::{Faults, Plan, plan};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use super::{FILES, File, matches, scenarios};

const PAGE: &str = include_str!("../../../src/guide/reproduction.md");

/// Returns the texts between backticks.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the texts between backticks in the page's tables.
fn quoted() -> Vec<&'static str> {
    PAGE.lines().filter(|line| line.starts_with("| ")).flat_map(code).collect()
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

/// Returns the changes in a code span: `file --set a=1 --set b=2` or the changes alone; none if a value is left open.
fn changes(span: &str) -> Vec<&str> {
    let sets = span.split("--set ").skip(1).map(str::trim);
    sets.filter(|set| !set.contains("...")).collect()
}

/// Changes that the page offers, with the pattern of the files they are for: in a row of an item each of its changes is
/// for each of its files, in a row of what was measured a file has its changes behind it.
fn offers() -> Vec<(&'static str, Vec<&'static str>)> {
    let (items, _) = PAGE.split_once("\n## Accuracies").expect("a section of accuracies");
    let mut offers = Vec::new();
    for row in items.lines().filter(|line| line.starts_with("| ")) {
        let spans = code(row);
        for pattern in spans.iter().filter(|span| span.ends_with(".toml")) {
            offers.extend(spans.iter().map(|span| (*pattern, changes(span))));
        }
    }
    let rows = compared().into_iter().flat_map(|table| table.rows);
    for source in rows.flat_map(|row| code(row[2])) {
        let pattern = source.split(' ').next().expect("a file");
        offers.push((pattern, changes(source)));
    }
    offers.retain(|(_, sets)| !sets.is_empty());
    offers
}

/// Changes that a row offers for the files it names give other scenarios, which are valid.
#[test]
fn changes_that_the_page_offers_work() {
    let offers = offers();
    assert!(offers.len() > 40, "the page offers only {}", offers.len());
    for (pattern, sets) in offers {
        for File { name: file, .. } in FILES.iter().filter(|file| matches(pattern, &file.name)) {
            let hash = |sets: &[&str]| loaded(file, sets).hash();
            assert_ne!(hash(&sets), hash(&[]), "{file} {sets:?}");
        }
    }
}

/// The scenario of a file with changes.
fn loaded(file: &str, sets: &[&str]) -> Scenario {
    let sets: Vec<Override> = sets.iter().map(|set| Override::new(*set)).collect();
    match Scenario::load(&scenarios().join(file), &sets, &Registry::builtin()) {
        Ok(loaded) => loaded.scenario,
        Err(error) => panic!("{file}: {error}"),
    }
}

/// Tables and figures of each paper, and sections that have numbers of their own, under the title that the page gives
/// it.
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
            "appendix B, operations",
            "appendix B, up to 50 % less inference",
            "appendix E",
            "appendix H",
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
            "corollary 3.4",
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
            "figure A, category ratios, HePCo",
            "figure A, the other methods",
            "appendix A, search",
            "appendix A, replay",
            "appendix C, bytes",
            "appendix C, times",
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
            "figure 5 (a)",
            "figure 5 (b) to (d)",
            "theorems 1 to 4",
        ],
    ),
    (
        "C2Prompt",
        &["main table", "ablation", "forward transfer", "0.6 %", "figure 5", "sensitivities"],
    ),
];

/// Returns the text after the heading that begins with `title`, up to the next heading.
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

/// Names of methods in rows without files, which call them missing.
fn missing_methods(section: &str) -> BTreeSet<&str> {
    let mut missed = BTreeSet::new();
    for row in section.lines() {
        let [item, "", missing] = cells(row)[..] else { continue };
        let named = if missing.starts_with("the method") { item } else { missing };
        let words = named.split(|c: char| !c.is_alphanumeric() && c != '-');
        missed.extend(words.filter(|word| word.chars().filter(|c| c.is_uppercase()).count() > 2));
    }
    missed
}

/// A method that a row without files calls missing does not exist.
#[test]
fn methods_that_the_page_calls_missing_are_not_here() {
    let rows = "| table 1, FedAvg-FT | a.toml | |\n| table 1, FedCIL | | the method |\n| rates | | TARGET |";
    assert_eq!(missing_methods(rows), BTreeSet::from(["FedCIL", "TARGET"]));
    let registry = Registry::builtin();
    for name in ITEMS.iter().flat_map(|(paper, _)| missing_methods(section(paper))) {
        assert!(registry.find(&name.to_lowercase()).is_err(), "{name} is not missing");
    }
}

fn planned(file: &str, sets: &[&str]) -> Plan {
    let blueprint = blueprint(&loaded(file, sets), &Registry::builtin()).expect("a blueprint");
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
        let plan = planned(file.trim_matches('`'), &[]);
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

/// The page's two commands say what C2Prompt sends more than Powder, and with the table of all client tasks once more.
#[test]
fn what_c2prompt_sends_more_is_what_plans_say() {
    let section = section("Bytes and sizes");
    let commands: Vec<_> = section
        .lines()
        .filter_map(|line| line.strip_prefix("fedcast plan scenarios/c2prompt/"))
        .map(|command| (command.split(' ').next().expect("a file"), changes(command)))
        .collect();
    let files: Vec<&str> = commands.iter().map(|(file, _)| *file).collect();
    assert_eq!(files, ["imagenet-r-powder.toml", "imagenet-r-c2prompt.toml"]);
    let more = |extra: Option<&'static str>| {
        let sent = |(file, sets): &(&str, Vec<&'static str>)| {
            let sets: Vec<&str> = sets.iter().copied().chain(extra).collect();
            let total = planned(&format!("c2prompt/{file}"), &sets).total;
            (total.down + total.up) as f64
        };
        100.0 * (sent(&commands[1]) / sent(&commands[0]) - 1.0)
    };
    let (needed, table) = (more(None), more(Some("method.downlink=table")));
    let says = format!(
        "{needed:.2} % on ImageNet-R if a client task gets what it needs, and {table:.2} % if every client \
         gets the table"
    );
    let text = section.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&says), "the page does not say {says:?}");
}

/// A table of the section of accuracies.
struct Compared {
    /// The study that its heading names.
    study: &'static str,
    /// Names of the study's rows whose numbers were published, and the columns of the study.
    head: Vec<&'static str>,
    /// Row of the study, published, files, measured.
    rows: Vec<Vec<&'static str>>,
}

fn compared() -> Vec<Compared> {
    let mut tables: Vec<Compared> = Vec::new();
    let mut study = "";
    let mut inside = false;
    for line in section("Accuracies").lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            study = code(heading).last().copied().unwrap_or_default();
        }
        let row = cells(line);
        match (line.starts_with('|'), inside) {
            (true, false) => tables.push(Compared { study, head: row, rows: Vec::new() }),
            (true, true) if line.starts_with("| ") => {
                assert_eq!(row.len(), 4, "{line}");
                tables.last_mut().expect("a head").rows.push(row);
            }
            _ => {}
        }
        inside = line.starts_with('|');
    }
    tables
}

/// Tables of a page, rows as cells and the head first.
fn tables(page: &str) -> Vec<Vec<Vec<&str>>> {
    let mut tables = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with('|') && !inside {
            tables.push(Vec::new());
        }
        inside = line.starts_with('|');
        if inside && !line.starts_with("|---") {
            tables.last_mut().expect("begun").push(cells(line));
        }
    }
    tables
}

/// Returns the cells of a row of a study's page, named by its first cell or its first two, in these columns.
fn found(tables: &[Vec<Vec<&str>>], label: &str, columns: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for table in tables {
        let (head, rows) = table.split_first().expect("a head");
        let place = |column: &&str| {
            let places: Vec<usize> = (0..head.len()).filter(|i| head[*i] == *column).collect();
            assert!(places.len() < 2, "{column} is ambiguous");
            places.first().copied()
        };
        let Some(places) = columns.iter().map(place).collect::<Option<Vec<usize>>>() else {
            continue;
        };
        for row in rows.iter().filter(|row| row[0] == label || row[..2].join(", ") == label) {
            found.push(places.iter().map(|place| row[*place]).collect::<Vec<_>>().join(" / "));
        }
    }
    found
}

#[test]
fn accuracies_that_the_page_compares_stand_in_that_row_of_the_study_s_page() {
    let mut looked = 0;
    for Compared { study, head, rows } in compared() {
        let page = std::fs::read_to_string(scenarios().join(format!("studies/{study}.md")));
        let page = page.unwrap_or_else(|error| panic!("{study}: {error}"));
        let tables = tables(&page);
        let among = match head[0] {
            "row of the study" => &tables[..],
            "row of the first table" => &tables[..1],
            "row of the second table" => &tables[1..2],
            other => panic!("{study}: {other}"),
        };
        let columns: Vec<&str> = head[3].split(" / ").collect();
        for row in rows {
            let (label, measured) = (row[0], row[3]);
            assert_eq!(found(among, label, &columns), [measured], "{study}: {label}, {}", head[3]);
            looked += columns.len();
        }
    }
    assert!(looked > 120, "{looked} numbers");
}

/// Numbers that papers have in their text alone, so that no file expects them: study, row, cell.
const IN_WORDS: [(&str, &str, &str); 2] = [
    ("fedhaf-shakespeare-random-bert", "FedHAF, 1", "over 20 %"),
    (
        "c2prompt-digits",
        "C²Prompt: LCDC and CPA",
        "FT +3.15 on ImageNet-R, +2.59 on DomainNet; FM below 0 on DomainNet, of no other method",
    ),
];

fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    parts.filter_map(|part| part.trim_end_matches('.').parse().ok()).collect()
}

/// Returns what a file expects of a metric.
///
/// With changes, it is what the line of its header with just these changes gives. Several metrics are in the order of
/// the papers' columns: average over the stages, the end, forgetting.
fn printed(source: &str, metric: &str) -> Vec<f64> {
    let file = source.split(' ').next().expect("a file");
    let file = FILES.iter().find(|known| known.name == file).expect("a file of a paper");
    let expected = |metric: &str| file.effective.get(&format!("expected.{metric}"));
    let sets = changes(source);
    if sets.is_empty() {
        let value = expected(metric).unwrap_or_else(|| panic!("{source} expects no {metric}"));
        return vec![value.as_float().or(value.as_integer().map(|n| n as f64)).expect("a number")];
    }
    let order = ["average_", "micro", "forgetting_"];
    let stands = |start: &str| {
        file.effective.keys().any(|key| key.starts_with(&format!("expected.{start}")))
    };
    let order: Vec<&str> = order.into_iter().filter(|start| stands(start)).collect();
    let text = std::fs::read_to_string(scenarios().join(&file.name)).expect("readable");
    for line in text.lines().take_while(|line| line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let set_at = |i: usize| words[i] == "--set" || i > 0 && words[i - 1] == "--set";
        let (set, said): (Vec<usize>, Vec<usize>) = (0..words.len()).partition(|i| set_at(*i));
        let set: Vec<&str> = set.into_iter().map(|i| words[i]).filter(|w| *w != "--set").collect();
        if set != sets {
            continue;
        }
        let said = said.into_iter().map(|i| words[i]).collect::<Vec<_>>().join(" ");
        let columns: Vec<&str> = said.split(" / ").collect();
        if columns.len() == 1 {
            return numbers(&said);
        }
        assert_eq!(columns.len(), order.len(), "{source}: {line}");
        let place = order.iter().position(|start| metric.starts_with(start));
        return numbers(columns[place.expect("a column")]);
    }
    panic!("the header has no line for {source}");
}

#[test]
fn published_numbers_on_the_page_match_the_files_named_there() {
    let mut looked = 0;
    for Compared { study, head, rows } in compared() {
        let metrics = code(head[1]);
        for row in rows {
            let (label, published, sources) = (row[0], row[1], code(row[2]));
            let said = numbers(published);
            if metrics.is_empty() {
                let known = IN_WORDS.contains(&(study, label, published));
                assert!(said.is_empty() || known, "{study}: {published} has no source");
                continue;
            }
            let asked: Vec<(&str, &str)> = match (&metrics[..], &sources[..]) {
                ([metric], sources) => sources.iter().map(|source| (*source, *metric)).collect(),
                (metrics, [source]) => metrics.iter().map(|metric| (*source, *metric)).collect(),
                _ => panic!("{study}: {label} has several files and metrics"),
            };
            assert_eq!(said.len(), asked.len(), "{study}: {label}, {published}");
            assert_eq!(published.is_empty(), asked.is_empty(), "{study}: {label}");
            for (number, (source, metric)) in said.into_iter().zip(asked) {
                let printed = printed(source, metric);
                assert!(printed.contains(&number), "{source} has {printed:?}, not {number}");
                looked += 1;
            }
        }
    }
    assert!(looked > 70, "{looked} numbers");
}

/// The row of CCVR is the one that calibrates what the published one did.
#[test]
fn ccvr_is_next_to_the_row_calibrating_the_same_classes() {
    let rows = compared().into_iter().flat_map(|table| table.rows);
    let mut scopes = BTreeSet::new();
    for row in rows.filter(|row| row[0].starts_with("CCVR")) {
        for source in code(row[2]) {
            let file = FILES.iter().find(|file| file.name == source).expect("a file");
            let scope = file.effective["method.scope"].as_str().expect("a word").to_owned();
            scopes.insert((row[0], scope));
        }
    }
    let wanted = ("CCVR, classes of the task calibrated", "current".to_owned());
    assert_eq!(scopes, BTreeSet::from([wanted]));
}
