//! `extends`: a scenario file that only states its differences from another file, its base.
//!
//! ```toml
//! extends = "base/cifar100.toml"   # relative to the folder of this file
//!
//! [partition]
//! beta = 0.05                      # everything else is as in the base
//! ```
//!
//! * The file's keys override those of its base. Tables merge; every other value, lists too, replaces the base's. A key
//!   cannot be removed, so a base holds what all its children share. But of two keys for the same setting (`count` and
//!   `sizes`, `count` and `fraction`) the child's replaces the other.
//! * A table that writes another `kind`, `name`, `source` or `dist` than the base's replaces the base's whole table:
//!   `name = "fedavg"` inherits no keys of `hgp`. The top level is not such a table: its `name` is a label.
//! * A base extends no other file. It need not be a whole scenario: only the result is checked.
//! * Paths are relative to the folder of the file that contains them.
//! * Errors point to the file in which the key stands.
//!
//! Overrides are applied last. The effective scenario of a run is the merged result, so a run directory does not depend
//! on a base.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::reader::{
    DECIDES, Node, ReadingReport, SourceText, Table, TomlEntry, TomlValue, ValueFault,
};
use crate::files::{FileKind, read_text};

pub(super) const KEY: &str = "extends";

/// Keys of one table of which only one may be given: sizes of tasks, and sizes of cohorts.
const ALTERNATIVES: [(&str, &str); 2] = [("count", "sizes"), ("count", "fraction")];

/// Place of a scenario text.
#[derive(Clone, Copy)]
pub(super) struct ScenarioFile<'a> {
    /// Path of the file, absolute and without links.
    pub file: &'a Path,
    /// Path as the user gave it.
    pub shown: &'a Path,
}

/// Removes the key `extends` from a scenario and returns it.
pub(super) fn take(root: &mut Node) -> Option<Node> {
    let TomlValue::Table(table) = &mut root.value else { return None };
    table.remove(KEY).map(|entry| entry.node)
}

/// Opens the base that `extends` names, and returns it with its folder. Reports what is wrong with it.
pub(super) fn open(
    extends: &Node,
    place: ScenarioFile<'_>,
    report: &mut ReadingReport,
) -> Option<(Node, PathBuf)> {
    let mut refuse = |message: String, label: &str, help: &str| {
        report.fault(ValueFault::new(extends, message, label).help(help));
    };
    let TomlValue::String(name) = &extends.value else {
        let label = format!("this is {}", extends.what());
        let message = "`extends` must be a string".to_owned();
        refuse(
            message,
            &label,
            "write the path of one scenario file, relative to the folder of this one",
        );
        return None;
    };
    let path = place.file.with_file_name(name);
    let shown = place.shown.with_file_name(name);
    let shown = shown.display();
    if path.is_dir() {
        refuse(format!("cannot extend {shown}: it is a folder"), "no file", "name a file in it");
        return None;
    }
    let read =
        path.canonicalize().and_then(|file| Ok((read_text(&file, FileKind::Scenario)?, file)));
    let (text, file) = match read {
        Ok(read) => read,
        Err(error) => {
            let help = match error.kind() {
                ErrorKind::NotFound => "the path is relative to the folder of this file",
                _ => "a base is a UTF-8 text in TOML",
            };
            refuse(format!("cannot read the base {shown}: {error}"), "this file", help);
            return None;
        }
    };
    if file == place.file {
        refuse(format!("{shown} extends itself"), "this file itself", "name another file");
        return None;
    }
    let mut base = report.parse(SourceText::new(&shown.to_string(), &text));
    if let Some(second) = take(&mut base) {
        let back = match &second.value {
            TomlValue::String(name) => file.with_file_name(name).canonicalize().ok(),
            _ => None,
        };
        let circle = back.is_some_and(|back| back == place.file);
        let message = match circle {
            true => format!("{} and {shown} extend each other", place.shown.display()),
            false => "a base cannot extend another file".to_owned(),
        };
        let fault = ValueFault::new(&second, message, "extends another file");
        report.fault(fault.help("remove this line and copy the keys that you need from that file"));
    }
    file.parent().map(|folder| (base, folder.to_owned()))
}

/// Merges a scenario over its base.
pub(super) fn over(base: Node, child: Node) -> Node {
    match (base.value, child.value) {
        (TomlValue::Table(base), TomlValue::Table(written)) => {
            Node { value: TomlValue::Table(joined(base, written)), span: child.span }
        }
        (_, value) => Node { value, span: child.span },
    }
}

fn joined(mut base: Table, written: Table) -> Table {
    written.keys().for_each(|key| drop_alternative(&mut base, key));
    for (key, TomlEntry { key: place, node }) in written {
        let node = match base.remove(&key) {
            Some(inherited) if same_meaning(&inherited.node, &node) => over(inherited.node, node),
            _ => node,
        };
        base.insert(key, TomlEntry { key: place, node });
    }
    base
}

/// Removes the key of a table that is an alternative to the key `written`.
pub(super) fn drop_alternative(table: &mut Table, written: &str) {
    for (one, other) in ALTERNATIVES {
        match written {
            _ if written == one => table.remove(other),
            _ if written == other => table.remove(one),
            _ => None,
        };
    }
}

/// Returns true if the keys of the base's table are valid with the child's kind of table.
fn same_meaning(base: &Node, child: &Node) -> bool {
    let word = |node: &Node, key: &str| node.at(key).and_then(|entry| entry.node.to_toml());
    DECIDES.iter().all(|key| match word(child, key) {
        Some(written) => word(base, key) == Some(written),
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Node {
        let mut report = ReadingReport::default();
        let node = report.parse(SourceText::new("text", text));
        assert!(report.is_clean(), "{text}");
        node
    }

    /// Returns the merge of two texts.
    fn result(base: &str, child: &str) -> toml::Value {
        over(parsed(base), parsed(child)).to_toml().unwrap()
    }

    fn assert_result(base: &str, child: &str, expected: &str) {
        assert_eq!(result(base, child), parsed(expected).to_toml().unwrap(), "{child}");
    }

    const BASE: &str = "name = \"all\"\n[client]\nepochs = 5\n\
                        optimizer = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }\n\
                        [data]\nsource = \"folder\"\npath = \"x\"\n[data.train]\nsize = 224\n";

    #[test]
    fn tables_merge_key_by_key_however_they_are_written() {
        let with = |more: &str| BASE.replace("lr = 0.1", more);
        for child in [
            "[client.optimizer]\nlr = 2",
            "[client]\noptimizer.lr = 2",
            "client = { optimizer = { lr = 2 } }",
            "[client]\noptimizer = { kind = \"sgd\", lr = 2 }",
        ] {
            assert_result(BASE, child, &with("lr = 2"));
        }
        assert_result(BASE, "", BASE);
        assert_result("", BASE, BASE);
        assert_result("a = [1, 2]\nb = 1", "a = [3]\nb = { c = 1 }", "a = [3]\nb = { c = 1 }");
    }

    #[test]
    fn another_deciding_word_replaces_the_whole_table() {
        let other = result(BASE, "[client]\noptimizer = { kind = \"adamw\" }");
        assert_eq!(other["client"]["optimizer"].as_table().unwrap().len(), 1);
        assert_eq!(other["client"]["epochs"].as_integer(), Some(5), "its neighbours stay");
        let other = result(BASE, "[data]\nsource = \"digits\"");
        assert_eq!(other["data"].as_table().unwrap().len(), 1, "with the tables in it");
        // What the base leaves to a default is another word, too.
        assert_result("[a]\nx = 1", "[a]\nkind = \"k\"", "[a]\nkind = \"k\"");
        assert_result("[a]\nkind = \"k\"\nx = 1", "[a]\ny = 2", "[a]\nkind = \"k\"\nx = 1\ny = 2");
    }

    #[test]
    fn of_two_ways_to_say_the_same_the_child_s_stands() {
        assert_result(
            "[tasks]\ncount = 5\norder = 1",
            "tasks.sizes = [1]",
            "tasks = { sizes = [1], order = 1 }",
        );
        assert_result("tasks.sizes = [1]", "tasks.count = 5", "tasks.count = 5");
        assert_result(
            "participation.count = 5",
            "participation.fraction = 0.1",
            "participation.fraction = 0.1",
        );
        assert_result(
            "participation = { count = 5, draw_every = \"task\" }",
            "participation.fraction = 0.1",
            "participation = { draw_every = \"task\", fraction = 0.1 }",
        );
        // Both together are reported later.
        let both = "participation = { count = 5, fraction = 0.1 }";
        assert_result("participation.count = 9", both, both);
        assert_result(both, "", both);
    }

    #[test]
    fn the_name_of_a_scenario_decides_nothing() {
        assert_result(BASE, "name = \"mine\"", &BASE.replace("\"all\"", "\"mine\""));
    }
}
