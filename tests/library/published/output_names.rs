//! Promise: a file of results that the guide's page of tables and figures names is one that a run writes.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../src/guide/reproduction.md");
const OUTPUTS: &str = include_str!("../../../src/guide/outputs.md");

/// Returns the names of results between the backticks of a page.
fn results(page: &str) -> BTreeSet<&str> {
    let spans = page.split('`').skip(1).step_by(2);
    let is_result = |span: &&str| span.ends_with(".csv") || span.ends_with(".json");
    spans.filter(|span| !span.contains(char::is_whitespace)).filter(is_result).collect()
}

#[test]
fn results_that_the_page_names_are_written_by_runs() {
    let (named, written) = (results(PAGE), results(OUTPUTS));
    assert!(named.contains("matrix.csv") && named.contains("summary.json"), "{named:?}");
    let unknown: Vec<_> = named.difference(&written).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in src/guide/outputs.md");
}
