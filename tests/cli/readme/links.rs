//! Promise: README is short, no page points to what is not there, and nothing lacks its page.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use fedcast::methods::Registry;
use fedcast::scenario::Scenario;

use super::markdown::{self, Page, RUSTDOC_LINKS, files, pages, read, root};

#[test]
fn the_readme_is_short() {
    let bytes = read("README.md").len();
    assert!(bytes <= 8 * 1024, "README has {bytes} bytes: what is more belongs into src/guide/");
}

/// A link's target below the root, without `..`.
fn resolved(page: &Page, target: &str) -> String {
    let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
    let mut parts = Vec::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part.as_os_str().to_str().unwrap().to_owned()),
        }
    }
    parts.join("/")
}

#[test]
fn every_link_points_to_a_file_and_a_heading() {
    let mut checked = 0;
    for page in pages() {
        let targets = page.inline_links().into_iter().chain(page.definitions().into_values());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => page.name.clone(),
                file => resolved(&page, file),
            };
            assert!(root().join(&file).exists(), "{} links to {target}", page.name);
            if !heading.is_empty() {
                let to = Page { text: read(&file), name: file };
                let there = to.anchors().contains(&heading.to_owned());
                assert!(there, "{}: {target} is no heading of {}", page.name, to.name);
            }
            checked += 1;
        }
    }
    assert!(checked >= 40, "only {checked} links found");
}

/// Pages that rustdoc shows link by labels: each page gives files for a code host, `links.md` items for
/// rustdoc. An inline link to a file would lead nowhere in rustdoc.
#[test]
fn every_label_leads_somewhere_on_a_code_host_and_in_rustdoc() {
    let rustdoc = Page { text: read(RUSTDOC_LINKS), name: RUSTDOC_LINKS.to_owned() }.definitions();
    for page in pages().into_iter().filter(|page| page.name != "README.md") {
        let (labels, here) = (page.labels(), page.definitions());
        for label in &labels {
            assert!(here.contains_key(label), "{} does not define [{label}]", page.name);
        }
        for label in here.keys() {
            assert!(labels.contains(label), "{} defines [{label}] for nothing", page.name);
            assert!(rustdoc.contains_key(label), "{RUSTDOC_LINKS} does not define [{label}]");
        }
        for target in page.inline_links() {
            let inside = target.starts_with('#') || target.contains("://");
            assert!(inside, "{}: give the link to {target} a label", page.name);
        }
    }
}

#[test]
fn every_file_that_is_named_is_there() {
    const FOLDERS: [&str; 5] = ["scenarios/", "src/", "tests/", "tools/", "benches/"];
    let mut named = BTreeSet::new();
    for page in pages() {
        for text in page.code_spans().into_iter().chain(page.shell_lines()) {
            let words = text.split(|c: char| c.is_whitespace() || "\"'()$,;".contains(c));
            let words = words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
            let real = words.filter(|word| !word.contains(['<', '*']));
            named.extend(real.map(|word| (word.to_owned(), page.name.clone())));
        }
    }
    assert!(named.len() >= 40, "only {} files named", named.len());
    for (name, page) in named {
        assert!(root().join(&name).exists(), "{page} names {name}");
    }
}

#[test]
fn rustdoc_shows_every_page() {
    for (folder, module, path) in [
        ("src/guide", "src/guide/mod.rs", ""),
        ("scenarios/studies", "src/guide/studies.rs", "../../scenarios/studies/"),
    ] {
        let shown = read(module);
        for name in files(folder, "md") {
            let file = name.rsplit('/').next().unwrap();
            let included = format!("include_str!(\"{path}{file}\")");
            assert!(shown.contains(&included), "{module} does not show {name}");
        }
    }
}

#[test]
fn every_study_has_a_page_with_its_command_and_date() {
    let date = |word: &str| {
        let digits = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
        digits.collect::<String>() == "0000-00-00"
    };
    for scenario in files("scenarios/studies", "toml") {
        // A study file is described on the page of its base.
        if scenario.ends_with(".study.toml") {
            continue;
        }
        let name = scenario.replace(".toml", ".md");
        assert!(root().join(&name).is_file(), "{scenario} has no page {name}");
        let page = Page { text: read(&name), name };
        assert!(!page.shell_lines().is_empty(), "{} has no command", page.name);
        let mut words = page.text.split(|c: char| !c.is_ascii_digit() && c != '-');
        assert!(words.any(date), "{} does not say when it was measured", page.name);
        assert!(page.text.contains(&scenario), "{} does not name {scenario}", page.name);
    }
}

/// Rows of a table are as wide as its head, and no cell is still to be filled.
#[test]
fn tables_are_whole() {
    let mut tables = 0;
    for page in pages() {
        let mut width = None;
        for line in page.text.lines() {
            let line = line.trim().trim_start_matches("//!").trim();
            if !line.starts_with('|') {
                width = None;
                continue;
            }
            let mut cells = line.split('|').map(str::trim);
            tables += usize::from(width.is_none());
            let open = |cell: &str| cell.len() > 2 && cell.starts_with('@') && cell.ends_with('@');
            assert!(!cells.any(open), "{}: {line}", page.name);
            let count = line.replace("\\|", "").matches('|').count();
            let code = line.split('`').skip(1).step_by(2).map(|code| code.matches('|').count());
            let count = count - code.sum::<usize>();
            assert_eq!(*width.get_or_insert(count), count, "{}: {line}", page.name);
        }
    }
    assert!(tables > 50, "only {tables} tables found");
}

/// The words of a page's code spans.
fn words_in_code(page: &Page) -> BTreeSet<String> {
    let spans = page.code_spans().join(" ");
    let words = spans.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c));
    words.map(str::to_owned).collect()
}

/// Keys of a TOML table, with those of tables in it.
fn keys_of(table: &toml::Table, prefix: &str, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => keys_of(inner, &format!("{path}."), found),
            toml::Value::Array(list) => {
                let tables = list.iter().filter_map(toml::Value::as_table);
                tables.for_each(|inner| keys_of(inner, &format!("{path}."), found));
                found.insert(path);
            }
            _ => drop(found.insert(path)),
        }
    }
}

/// Keys that a scenario has by default, and those of all shipped ones.
#[test]
fn the_guide_has_every_key_of_a_scenario() {
    let page = Page { text: read("src/guide/scenarios.md"), name: "src/guide/scenarios.md".into() };
    let section = |name: &str| page.section(name).map(|section| words_in_code(&section));
    let laws = section("Distributions").expect("it has distributions");
    let top = section("The top of the file").expect("it has a top");
    let mut keys: BTreeSet<String> =
        Scenario::keys().into_iter().map(|key| key.key.replace("[]", "")).collect();
    for folder in ["baselines", "hgp", "prompts", "stsa", "hepco", "fedhaf", "c2prompt", "studies"]
    {
        let all = files(&format!("scenarios/{folder}"), "toml");
        for file in all.iter().filter(|file| !file.ends_with(".study.toml")) {
            keys_of(&read(file).parse().expect("it is TOML"), "", &mut keys);
        }
    }
    assert!(keys.len() > 100, "only {} keys", keys.len());
    // `fedcast methods show NAME` has those of methods.
    for key in keys.iter().filter(|key| !key.starts_with("method.")) {
        let is_documented = match key.split_once('.') {
            None => top.contains(key),
            Some((table, rest)) => {
                let last = rest.rsplit('.').next().unwrap_or(rest);
                let here = section(&format!("`[{table}]`")).or(section(&format!("`[[{table}]]`")));
                here.is_some_and(|words| words.contains(last)) || laws.contains(last)
            }
        };
        assert!(is_documented, "{} lacks `{key}`", page.name);
    }
}

#[test]
fn the_guide_has_every_method() {
    let page = Page { text: read("src/guide/methods.md"), name: "src/guide/methods.md".into() };
    let spans = page.code_spans();
    for method in Registry::builtin().all() {
        assert!(
            spans.iter().any(|span| span == method.name),
            "{} lacks {}",
            page.name,
            method.name
        );
    }
}

#[test]
fn an_anchor_is_that_of_code_hosts() {
    let page = Page { name: "x.md".into(), text: "# One\n## Tasks of a client's own\n".into() };
    assert_eq!(page.anchors(), ["one", "tasks-of-a-clients-own"]);
    assert!(markdown::pages().len() > 20);
}
