//! Advice for errors in the scenario of a recorded run, which is never edited.

use std::path::Path;

use crate::scenario::ScenarioError;
use crate::scenario::reader::{Diagnostic, SourceSpan};

/// Returns the error with advice that can be followed: a table of the recorded scenario is replaced as a whole. A
/// replacement that `accepts` takes is written out.
pub(super) fn advised(
    error: ScenarioError,
    file: &Path,
    overrides: &[String],
    accepts: impl Fn(&[String]) -> bool,
) -> ScenarioError {
    let ScenarioError::Invalid(mut diagnostics) = error else { return error };
    let recorded = file.display().to_string();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for Diagnostic { place, help, .. } in &mut diagnostics {
        let Some(place) = place.as_ref().filter(|place| place.file == recorded) else { continue };
        let table = table_around(&text, place);
        *help = Some(match replacement(&table, overrides) {
            Some((with, replaced)) if accepts(&replaced) => {
                format!("a recorded scenario is not edited; replace its table: --set '{with}'")
            }
            Some((with, _)) => {
                let open = with.trim_end_matches('}');
                format!(
                    "a recorded scenario is not edited; replace its table, including every required key: --set '{open}, \
                     ...}}'"
                )
            }
            None if table.is_empty() => {
                "a recorded scenario is not edited; override this key, too, with --set KEY=VALUE"
                    .to_owned()
            }
            None => format!(
                "a recorded scenario is not edited; override this key, too, or replace its table: --set '{table}={{...}}'"
            ),
        });
    }
    ScenarioError::Invalid(gathered(diagnostics, &recorded))
}

/// Merges the errors of keys of the recorded scenario that the same advice helps.
fn gathered(all: Vec<Diagnostic>, recorded: &str) -> Vec<Diagnostic> {
    let is_recorded = |one: &Diagnostic| one.place.as_ref().is_some_and(|at| at.file == recorded);
    let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
    for one in all {
        let alike = |(first, _): &&mut (Diagnostic, usize)| {
            is_recorded(&one) && is_recorded(first) && first.help == one.help
        };
        match kept.iter_mut().find(alike) {
            Some((_, more)) => *more += 1,
            None => kept.push((one, 0)),
        }
    }
    let with_count = |(mut one, more): (Diagnostic, usize)| {
        if more > 0 {
            one.message.push_str(&format!(", and {more} more errors of this table"));
        }
        one
    };
    kept.into_iter().map(with_count).collect()
}

/// Returns the dotted name of the table in whose lines a place is; empty at the top of the file.
fn table_around(text: &str, place: &SourceSpan) -> String {
    let heads = text.lines().take(place.line).filter_map(|line| {
        let head = line.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(head.trim_matches(['[', ']']))
    });
    heads.last().unwrap_or_default().to_owned()
}

/// Returns one override that replaces a table, and all overrides with it in their place. Its values are those of the
/// overrides.
fn replacement(table: &str, overrides: &[String]) -> Option<(String, Vec<String>)> {
    let inside = |text: &String| -> Option<(String, String)> {
        let (key, value) = text.split_once('=')?;
        let key = key.trim().strip_prefix(table)?.strip_prefix('.')?;
        Some((key.to_owned(), as_toml(value.trim())))
    };
    let (within, mut others): (Vec<&String>, Vec<&String>) =
        overrides.iter().partition(|text| !table.is_empty() && inside(text).is_some());
    if within.is_empty() {
        return None;
    }
    let pairs = within.iter().filter_map(|text| inside(text));
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    let with = format!("{table}={{{}}}", pairs.join(", "));
    others.push(&with);
    let replaced = others.into_iter().cloned().collect();
    Some((with, replaced))
}

/// Returns a value as it stands inside braces: a bare word in quotes.
fn as_toml(value: &str) -> String {
    match format!("v = {value}").parse::<toml::Table>() {
        Ok(_) => value.to_owned(),
        Err(_) => toml::Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_by_all_that_is_said_of_it() {
        let overrides =
            ["time.preset=mobile", "round.close=all", "seed.run=2", "round.late=aggregate"];
        let overrides = overrides.map(str::to_owned);
        let (with, all) = replacement("round", &overrides).unwrap();
        assert_eq!(with, "round={close=\"all\", late=\"aggregate\"}");
        assert_eq!(all, ["time.preset=mobile", "seed.run=2", &with]);
        assert_eq!(replacement("client", &overrides), None);
        assert_eq!(replacement("", &overrides), None);
        let deeper = ["client.optimizer.kind=sgd".to_owned(), "client.optimizer.lr=0.1".to_owned()];
        let (with, _) = replacement("client", &deeper).unwrap();
        assert_eq!(with, "client={optimizer.kind=\"sgd\", optimizer.lr=0.1}");
        let (with, _) = replacement("client.optimizer", &deeper).unwrap();
        assert_eq!(with, "client.optimizer={kind=\"sgd\", lr=0.1}");
    }

    #[test]
    fn one_change_is_advised_once() {
        let error = |file: &str, line: usize, help: &str| Diagnostic {
            message: format!("line {line}"),
            place: Some(SourceSpan {
                file: file.into(),
                line,
                column: 1,
                length: 1,
                text: "a".into(),
            }),
            label: String::new(),
            help: Some(help.to_owned()),
        };
        let all = vec![
            error("run", 1, "a"),
            error("run", 2, "a"),
            error("run", 3, "b"),
            error("--set", 1, "a"),
            error("run", 4, "a"),
        ];
        let gathered_errors = gathered(all, "run");
        let messages: Vec<&str> = gathered_errors.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, ["line 1, and 2 more errors of this table", "line 3", "line 1"]);
    }

    #[test]
    fn a_place_is_in_the_table_above_it() {
        let text = "a = 1\n[round]\nclose = 1\n[client.optimizer]\nlr = 1\n[[faults]]\nrate = 1\n";
        let table = |line| {
            let (file, text_of) = (String::new(), String::new());
            table_around(text, &SourceSpan { file, line, column: 1, length: 1, text: text_of })
        };
        let tables: Vec<String> = (1..=7).map(table).collect();
        let expected =
            ["", "round", "round", "client.optimizer", "client.optimizer", "faults", "faults"];
        assert_eq!(tables, expected);
    }
}
