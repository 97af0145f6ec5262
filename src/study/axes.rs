//! `[axes]`: what varies, and how.

use super::clash::refuse_seeds;
use crate::scenario::reader::{Param, TableReader, nearest};
use crate::scenario::{Changes, Written};

/// One axis of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The column it has in tables.
    pub name: String,
    /// The key it sets; `None` of an axis whose arms are sets of changes.
    pub key: Option<String>,
    /// In the order in which they are written, which is that of tables.
    pub arms: Vec<Arm>,
}

/// One place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// As folders and tables call it.
    pub label: String,
    /// The value of the axis' key; `None` of a set of changes.
    pub value: Option<toml::Value>,
    /// What it changes.
    pub changes: Changes,
}

/// An axis and one of its arms, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    pub axis: usize,
    pub arm: usize,
}

/// Columns of tables that no axis can be called.
const TAKEN: [&str; 25] = [
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
    "metric",
    "mean",
    "sd",
    "low95",
    "high95",
    "p",
    "test",
];

impl Axis {
    /// Every axis of `[axes]`, in order.
    pub(super) fn read_all(table: &mut TableReader<'_>) -> Vec<Axis> {
        let axes = table.rest_of_tables(Axis::read);
        axes.into_iter().flatten().collect()
    }

    fn read(name: &str, table: &mut TableReader<'_>) -> Option<Axis> {
        if !is_word(name) || TAKEN.contains(&name) {
            let message = format!("an axis cannot be called `{name}`");
            let help = "use letters, digits, `_` and `-`, and no name of another column";
            table.reject("", &message, "this axis", help);
            return None;
        }
        let keyed = table.given_string("key") || table.given("values");
        let axis = if keyed { Axis::keyed(name, table)? } else { Axis::labelled(name, table) };
        if axis.arms.is_empty() {
            let help = "write `values = [1, 2]` beside `key`, or an arm such as `a = { method = { name = \"hgp\" } }`";
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
            let message = format!("`{}` stands twice on the axis `{name}`", arm.label);
            table.reject_item("values", place, &message, "twice", "remove one of them");
        }
        Some(axis)
    }

    /// `{ key = "federation.clients", values = [10, 50] }`.
    fn keyed(name: &str, table: &mut TableReader<'_>) -> Option<Axis> {
        let key = Param::required("key", "federation.clients".to_owned(), "the key it sets");
        let values = "what it is set to";
        let example = vec![Written::from(toml::Value::Integer(10))];
        let (key, values) =
            (table.require(&key), table.require(&Param::required("values", example, values)));
        let (key, values) = (key?, values?);
        let mut arms = Vec::new();
        for (place, written) in values.into_iter().enumerate() {
            let value = written.value();
            let Some(label) = label(&value) else {
                let help = "give such values names: `[axes.NAME]` with arms such as `a = { method = { ... } }`";
                let message = "a list or a table has no short name";
                table.reject_item("values", place, message, "this one", help);
                return None;
            };
            let Some(changes) = Changes::at(&key, &written) else {
                let help = "write the dotted path of a key, such as `federation.clients`";
                table.reject("key", "this is not a key", "expected a.b.c", help);
                return None;
            };
            arms.push(Arm { label, value: Some(value), changes });
        }
        Some(Axis { name: name.to_owned(), key: Some(key), arms })
    }

    /// Arms with names, each a set of changes.
    fn labelled(name: &str, table: &mut TableReader<'_>) -> Axis {
        let arms = table.rest::<Changes>().into_iter();
        let arms = arms.map(|(label, changes)| Arm { label, value: None, changes });
        Axis { name: name.to_owned(), key: None, arms: arms.collect() }
    }
}

/// What a value is called.
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

/// The arm that `name = value` names, or what is wrong and what to do.
pub(super) fn pick(axes: &[Axis], name: &str, value: &str) -> Result<Pick, (String, String)> {
    let Some(axis) = axes.iter().position(|axis| axis.name == name) else {
        let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None if names.is_empty() => "this study has no axes".to_owned(),
            None => format!("there are {}", names.join(", ")),
        };
        return Err((format!("there is no axis `{name}`"), help));
    };
    let labels = || axes[axis].arms.iter().map(|arm| arm.label.as_str());
    let Some(arm) = labels().position(|label| label == value) else {
        let help = match nearest(value, labels()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("there are {}", labels().collect::<Vec<_>>().join(", ")),
        };
        return Err((format!("`{value}` is not on the axis `{name}`"), help));
    };
    Ok(Pick { axis, arm })
}

/// Every key of a table as a pick, such as `method = "stsa"`, `clients = 500`.
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
