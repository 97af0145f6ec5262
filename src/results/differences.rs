//! Differences of scenarios, as dotted paths of the keys that differ.
//!
//! Different methods have different keys, most of them at their defaults. A key that only one method has, at that
//! method's default, is not informative: such keys are listed separately, in one line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toml::{Table, Value};

use crate::document::Document;
use crate::methods::Registry;

/// Scenario as a map from dotted paths to values in TOML.
pub type Flat = BTreeMap<String, String>;

/// A key with its value in each scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Document)]
pub struct Difference {
    /// Dotted path.
    pub key: String,
    /// Values by scenario, in order; `None` if a scenario has no such key.
    pub values: Vec<Option<String>>,
}

/// Differences of several scenarios.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Document)]
pub struct Differences {
    /// Keys that differ, in order of their paths.
    pub keys: Vec<Difference>,
    /// Keys that only the scenario's method has, at its defaults: by scenario, as `key = value`.
    pub defaults: Vec<Vec<String>>,
}

impl Differences {
    /// Compares scenarios, in order. The defaults of their methods are those of the registry.
    pub fn of(scenarios: &[&Flat], methods: &Registry) -> Differences {
        let paths: BTreeSet<&String> = scenarios.iter().flat_map(|flat| flat.keys()).collect();
        let mut found =
            Differences { defaults: vec![Vec::new(); scenarios.len()], ..Differences::default() };
        for path in paths {
            let values: Vec<Option<String>> =
                scenarios.iter().map(|flat| flat.get(path).cloned()).collect();
            if values.windows(2).all(|pair| pair[0] == pair[1]) {
                continue;
            }
            let lacking = values.iter().any(Option::is_none);
            let default = |(flat, value): (&&Flat, &Option<String>)| {
                value.as_ref().is_none_or(|value| is_default(methods, flat, path, value))
            };
            if lacking && scenarios.iter().zip(&values).all(default) {
                for (of, value) in found.defaults.iter_mut().zip(&values) {
                    of.extend(value.as_ref().map(|value| format!("{path} = {value}")));
                }
            } else {
                found.keys.push(Difference { key: path.clone(), values });
            }
        }
        found
    }

    /// Returns true if the scenarios are equal.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.defaults.iter().all(Vec::is_empty)
    }
}

/// Returns true if a key of `[method]` has the method's default value.
fn is_default(methods: &Registry, scenario: &Flat, path: &str, value: &str) -> bool {
    let of = |table: &str| {
        let key = path.strip_prefix(table)?;
        let name = scenario.get(&format!("{table}name"))?;
        let entry = methods.find(name.trim_matches('"')).ok()?;
        entry.params().into_iter().find(|param| param.key == key)?.default
    };
    let default = of("method.first.").or_else(|| of("method."));
    default.is_some_and(|default| default == value)
}

/// Converts a scenario to dotted paths; elements of lists of tables have their number in brackets.
pub fn flatten(scenario: &Table) -> Flat {
    let mut flat = Flat::new();
    walk("", scenario, &mut flat);
    flat
}

fn walk(prefix: &str, table: &Table, flat: &mut Flat) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(table) => walk(&format!("{path}."), table, flat),
            Value::Array(list) if list.iter().any(Value::is_table) => {
                for (place, item) in list.iter().enumerate() {
                    let path = format!("{path}[{}]", place + 1);
                    match item {
                        Value::Table(table) => walk(&format!("{path}."), table, flat),
                        other => {
                            flat.insert(path, other.to_string());
                        }
                    }
                }
            }
            other => {
                flat.insert(path, other.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> Flat {
        flatten(&text.parse().unwrap())
    }

    #[test]
    fn only_differences_are_listed_with_their_runs() {
        let one = flat("a = 1\n[b]\nc = [1, 2]\nd = \"x\"\n[[faults]]\nkind = \"loss\"");
        let other = flat("a = 1\n[b]\nc = [1, 3]\nd = \"x\"");
        let found = Differences::of(&[&one, &other], &Registry::builtin());
        let keys: Vec<_> = found.keys.iter().map(|d| (d.key.as_str(), d.values.clone())).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            keys,
            [
                ("b.c", vec![some("[1, 2]"), some("[1, 3]")]),
                ("faults[1].kind", vec![some("\"loss\""), None]),
            ]
        );
        assert!(Differences::of(&[&one, &one], &Registry::builtin()).is_empty());
    }

    #[test]
    fn defaults_of_a_method_that_the_other_has_not_are_apart() {
        let one = flat("[method]\nname = \"fedprox\"\nmu = 0.123\nprompt_len = 200");
        let other = flat("[method]\nname = \"stsa\"\nwidth = 0");
        let found = Differences::of(&[&one, &other], &Registry::builtin());
        let keys: Vec<&str> = found.keys.iter().map(|d| d.key.as_str()).collect();
        assert_eq!(keys, ["method.mu", "method.name", "method.width"]);
        assert_eq!(found.defaults, [vec!["method.prompt_len = 200".to_owned()], vec![]]);
    }
}
