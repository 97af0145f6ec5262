//! Text of a new study file: the methods of a list, over the scenario that is written with it.

use toml::{Table, Value};

use crate::files::shell_word;
use crate::study::default_directory;

/// Change of a scenario: dotted path and value.
pub(super) type KeyChange = (String, Value);

/// Returns the changes that turn one scenario into another: keys of tables, but `[method]` as a whole.
///
/// A table among the changes of a study replaces a table, so keys in tables have dotted paths.
pub(super) fn changes(base: &Table, other: &Table) -> Vec<KeyChange> {
    let mut changes = Vec::new();
    for (key, value) in other {
        match (base.get(key), value) {
            (Some(known), value) if known == value => {}
            (Some(Value::Table(known)), Value::Table(table)) if key != "method" => {
                let inner = self::changes(known, table).into_iter();
                changes.extend(inner.map(|(path, value)| (format!("{key}.{path}"), value)));
            }
            (_, value) => changes.push((key.clone(), value.clone())),
        }
    }
    changes
}

/// Returns the text of a study of these arms over a scenario file next to it.
///
/// The first arm is the baseline.
pub(super) fn text(
    scenario: &str,
    name: &str,
    arms: &[(String, Vec<KeyChange>)],
    seeds: u32,
) -> String {
    let base = Value::from(scenario);
    let arm = |(label, changes): &(String, Vec<KeyChange>)| {
        let change = |(path, value): &KeyChange| format!("{path} = {value}");
        let changes: Vec<String> = changes.iter().map(change).collect();
        format!("{} = {{ {} }}\n", quoted(label), changes.join(", "))
    };
    let baseline =
        arms.first().map_or_else(String::new, |(label, _)| Value::from(label.as_str()).to_string());
    let lines: String = arms.iter().map(arm).collect();
    let directory = shell_word(default_directory(name));
    format!(
        "# Made by `fedcast new`. Every key: `fedcast keys study`. Costs, without running: `fedcast study FILE --plan`.\n\
         schema = 2\n\
         base = {base}\n\
         replicates = {seeds}           # runs of every arm, each with its own seeds, partition and order of classes\n\n\
         [axes.method]            # one line per arm: its name, and its changes to the base\n\
         {lines}\n\
         # A second axis, whose values every arm is run with; `fedcast report` draws it horizontally.\n\
         # [axes.clients]\n\
         # key = \"federation.clients\"\n\
         # values = [10, 50]\n\n\
         # Cells outside of the grid.\n\
         # [[extra]]\n\
         # label = \"fifty clients\"\n\
         # set = {{ federation.clients = 50 }}\n\n\
         [compare]\n\
         baseline = {{ method = {baseline} }}    # differences from it are paired by seeds\n\
         metrics = [\"faa\", \"forgetting_from_best\", \"bytes_down\", \"bytes_up\"]    # columns of the tables\n\n\
         # [report]               # `fedcast report {directory}`\n\
         # plots = [\"faa\", \"accuracy_by_task\", \"pareto:bytes_up:faa\"]\n\
         # names = {{ {} = \"Ours\" }}    # in print: table.tex, figures and legends\n",
        arms.last().map_or_else(String::new, |(label, _)| quoted(label)),
    )
}

/// Returns a label as a key of TOML.
fn quoted(label: &str) -> String {
    let bare = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare && !label.is_empty() { label.to_owned() } else { Value::from(label).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_what_differs_and_a_method_is_whole() {
        let base = "a = 1\n[method]\nname = \"x\"\nk = 1\n[client]\nepochs = 5\nbatch_size = 8\n";
        let other =
            "a = 1\n[method]\nname = \"y\"\n[client]\nepochs = 5\nbatch_size = 16\n[new]\nb = 2\n";
        let found = changes(&base.parse().unwrap(), &other.parse().unwrap());
        let mut lines: Vec<String> =
            found.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        lines.sort();
        assert_eq!(
            lines,
            ["client.batch_size = 16", "method = { name = \"y\" }", "new = { b = 2 }"]
        );
        assert!(changes(&base.parse().unwrap(), &base.parse().unwrap()).is_empty());
    }

    #[test]
    fn labels_are_keys() {
        assert_eq!(quoted("coda-prompt"), "coda-prompt");
        assert_eq!(quoted("a b"), "\"a b\"");
    }
}
