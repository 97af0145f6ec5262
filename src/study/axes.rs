//! `[axes]`: axes of the grid, each a key with values or a list of named changes.

use super::clash::refuse_seeds;
use crate::scenario::reader::{Param, TableReader, nearest};
use crate::scenario::{Changes, Written};

/// One axis of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name of the axis and of its column in tables.
    pub name: String,
    /// Key that the axis sets; `None` if its arms are sets of changes.
    pub key: Option<String>,
    /// Arms in written order, which is that of tables.
    pub arms: Vec<AxisArm>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisArm {
    /// Label in folders and tables.
    pub label: String,
    /// Value of the axis' key; `None` for a set of changes.
    pub value: Option<toml::Value>,
    /// Changes of the base.
    pub changes: Changes,
}

/// An axis and one of its arms, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Index of the axis in the study, from 0.
    pub axis: usize,
    /// Index of the arm on its axis, from 0.
    pub arm: usize,
}

/// Names of table columns, which no axis may have.
const TAKEN: [&str; 26] = [
    "cell",
    "label",
    "seed",
    "seed_run",
    "seed_partition",
    "seed_class_order",
    "status",
    "method_name",
    "digest_events",
    "digest_numbers",
    "hash",
    "path",
    "fedcast",
    "error",
    "round",
    "n",
    "note",
    "against",
    "baseline",
    "metric",
    "mean",
    "sd",
    "low95",
    "high95",
    "p",
    "test",
];

impl Axis {
    /// Reads every axis of `[axes]`, in order.
    pub(super) fn read_all(table: &mut TableReader<'_>) -> Vec<Axis> {
        let axes = table.rest_of_tables(Axis::read);
        axes.into_iter().flatten().collect()
    }

    fn read(name: &str, table: &mut TableReader<'_>) -> Option<Axis> {
        if !is_word(name) || TAKEN.contains(&name) {
            let message = format!("an axis cannot have the name `{name}`");
            let help = "use letters, digits, `_` and `-`, and not the name of another column";
            table.reject("", &message, "this axis", help);
            return None;
        }
        let keyed = table.given_string("key") || table.given("values");
        let axis = if keyed { Axis::keyed(name, table)? } else { Axis::labeled(name, table) };
        if axis.arms.is_empty() {
            let help = "write `values = [1, 2]` next to `key`, or an arm such as `a = { method = { name = \"hgp\" } }`";
            table.reject("values", &format!("the axis `{name}` has no values"), "empty", help);
        }
        for arm in &axis.arms {
            refuse_seeds(table, if keyed { "key" } else { &arm.label }, &arm.changes);
            if keyed {
                break;
            }
        }
        let twice = axis.arms.iter().enumerate().find(|(index, arm)| {
            axis.arms[..*index].iter().any(|before| before.label == arm.label)
        });
        if let Some((place, arm)) = twice {
            let message = format!("the axis `{name}` has `{}` twice", arm.label);
            table.reject_item("values", place, &message, "twice", "remove one of them");
        }
        Some(axis)
    }

    /// Reads an axis of the form `{ key = "federation.clients", values = [10, 50] }`.
    fn keyed(name: &str, table: &mut TableReader<'_>) -> Option<Axis> {
        let key = Param::required("key", "federation.clients".to_owned(), "key that the axis sets");
        let values = "values of the key";
        let example = vec![Written::from(toml::Value::Integer(10))];
        let (key, values) =
            (table.require(&key), table.require(&Param::required("values", example, values)));
        let (key, values) = (key?, values?);
        let mut arms = Vec::new();
        for (place, written) in values.into_iter().enumerate() {
            let value = written.value();
            let Some(label) = label(&value) else {
                let help =
                    "name such values: `[axes.NAME]` with arms such as `a = { method = { ... } }`";
                let message = "a list or a table has no short label";
                table.reject_item("values", place, message, "this one", help);
                return None;
            };
            let Some(changes) = Changes::at(&key, &written) else {
                let help = "write the dotted path of a key, such as `federation.clients`";
                table.reject("key", "this is not a key", "expected a.b.c", help);
                return None;
            };
            arms.push(AxisArm { label, value: Some(value), changes });
        }
        Some(Axis { name: name.to_owned(), key: Some(key), arms })
    }

    /// Reads an axis of named arms, each a set of changes.
    fn labeled(name: &str, table: &mut TableReader<'_>) -> Axis {
        let arms = table.rest::<Changes>().into_iter();
        let arms = arms.map(|(label, changes)| AxisArm { label, value: None, changes });
        Axis { name: name.to_owned(), key: None, arms: arms.collect() }
    }
}

/// Returns the label of a value.
fn label(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        _ => None,
    }
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// Returns the arm that `name = value` names, or an error message and advice.
pub(super) fn pick(axes: &[Axis], name: &str, value: &str) -> Result<Pick, (String, String)> {
    let Some(axis) = axes.iter().position(|axis| axis.name == name) else {
        let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None if names.is_empty() => "this study has no axes".to_owned(),
            None => format!("use one of {}", names.join(", ")),
        };
        return Err((format!("there is no axis `{name}`"), help));
    };
    let labels = || axes[axis].arms.iter().map(|arm| arm.label.as_str());
    let Some(arm) = labels().position(|label| label == value) else {
        let help = match nearest(value, labels()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("use one of {}", labels().collect::<Vec<_>>().join(", ")),
        };
        return Err((format!("the axis `{name}` has no arm `{value}`"), help));
    };
    Ok(Pick { axis, arm })
}

/// Reads every key of a table as a pick, such as `method = "stsa"`, `clients = 500`.
pub(super) fn read_picks(table: &mut TableReader<'_>, axes: &[Axis]) -> Vec<Pick> {
    let mut picks = Vec::new();
    for (name, written) in table.rest::<Written>() {
        match pick(axes, &name, &label(&written.value()).unwrap_or_default()) {
            Ok(pick) => picks.push(pick),
            Err((message, help)) => table.reject(&name, &message, "no such cell", &help),
        }
    }
    picks
}
