//! Files of schema 1 and what they become.

use std::collections::BTreeSet;
use std::path::Path;

use super::file::migrate;
use super::table::{KEYS, KeyRename, RenameScope, ValueForm, WORDS};

/// Files of schema 1 that have every old name between them, with the same files of schema 2.
const FILES: [(&str, &str); 2] = [
    (
        include_str!("../../../tests/cli/migrate/old.toml"),
        include_str!("../../../tests/cli/migrate/new.toml"),
    ),
    (
        include_str!("../../../tests/cli/migrate/old.study.toml"),
        include_str!("../../../tests/cli/migrate/new.study.toml"),
    ),
];

fn migrated(text: &str) -> String {
    migrate(text, "a.toml").unwrap_or_else(|error| panic!("{text}\n{error}")).text
}

fn error(text: &str) -> String {
    migrate(text, "a.toml").unwrap_err().to_string()
}

/// A document with one old key, with the method to which it belongs.
fn with_key(rename: &KeyRename) -> String {
    let KeyRename { table, old, scope, .. } = rename;
    match scope {
        RenameScope::Everywhere => format!("{table}.{old} = 1\n"),
        RenameScope::Methods(names, _) => {
            format!("{table}.name = \"{}\"\n{table}.{old} = 1\n", names[0])
        }
    }
}

#[test]
fn files_with_every_old_name_are_migrated_whole() {
    for (old, new) in FILES {
        assert_eq!(migrated(old), new);
        assert_eq!(migrated(new), new, "a second time");
    }
}

#[test]
fn every_row_of_the_tables_is_in_these_files() {
    let changes = FILES.iter().flat_map(|(old, _)| migrate(old, "a.toml").unwrap().changes);
    let changes: BTreeSet<String> =
        changes.map(|change| change.new.replace("method.first.", "method.")).collect();
    for KeyRename { table, new, .. } in KEYS {
        assert!(changes.contains(&format!("{table}.{new}")), "{table}.{new}");
    }
    for rename in WORDS {
        let word = format!("{} = \"{}\"", rename.key, rename.new);
        let plot = format!("{} = \"pareto:bytes_up:{}\"", rename.key, rename.new);
        assert!(changes.contains(&word) || changes.contains(&plot), "{word}");
    }
}

#[test]
fn each_row_alone_gives_its_new_name_once() {
    for rename in KEYS {
        let text = with_key(&rename);
        let new = migrated(&text);
        assert_eq!(new, text.replace(&format!(".{} =", rename.old), &format!(".{} =", rename.new)));
        assert_eq!(migrated(&new), new, "a second time");
    }
    for rename in WORDS {
        let text = |word| format!("{} = \"{word}\"\n", rename.key);
        assert_eq!(migrated(&text(rename.old)), text(rename.new));
        assert_eq!(migrated(&text(rename.new)), text(rename.new), "a second time");
    }
}

#[test]
fn new_names_are_no_old_names_of_their_table() {
    let all = || KEYS.iter();
    for one in all() {
        let again = all().find(|other| (other.table, other.old) == (one.table, one.new));
        assert_eq!(again, None);
        assert_ne!(one.old, one.new);
    }
    for one in WORDS {
        assert!(!WORDS.iter().any(|other| (other.key, other.old) == (one.key, one.new)));
    }
}

#[test]
fn keys_of_other_methods_stay() {
    for rename in KEYS.iter().filter(|rename| rename.scope != RenameScope::Everywhere) {
        let text = format!("[method]\nname = \"joint\"\n{} = 1\n", rename.old);
        assert_eq!(migrated(&text), text);
    }
    let word = "[method]\nname = \"joint\"\nlend = \"begun\"\n";
    assert_eq!(migrated(word), word);
}

#[test]
fn the_value_decides_where_the_base_names_the_method() {
    for rename in KEYS {
        let RenameScope::Methods(_, form) = rename.scope else { continue };
        let value = if form == ValueForm::Word { "\"x\"" } else { "1" };
        let text = format!("extends = \"b.toml\"\n[method]\n{} = {value}\n", rename.old);
        assert!(migrated(&text).contains(rename.new), "{text}");
    }
    let text = "extends = \"b.toml\"\nmethod.components = 4\n";
    assert_eq!(migrated(text), text);
}

#[test]
fn files_of_schema_2_and_without_old_names_stay() {
    let new = "schema = 2\n[client]\nbatch = 1 # left to the reader\n";
    assert_eq!(migrated(new), new);
    let base = "[client]\nepochs = 1\n";
    assert!(migrate(base, "a.toml").unwrap().changes.is_empty());
    assert_eq!(migrated("[client]\nbatch = 1\n"), "[client]\nbatch_size = 1\n");
}

#[test]
fn marks_and_line_ends_stay() {
    let old = "\u{feff}schema = 1\r\nclient.batch = 1\r\n\r\nround.late = \"fold\"\r";
    let new = "\u{feff}schema = 2\r\nclient.batch_size = 1\r\n\r\nround.late = \"aggregate\"\r";
    assert_eq!(migrated(old), new);
}

#[test]
fn changes_are_reported_once_with_their_lines() {
    let text = "schema = 1\n\n[client.optimiser]\nlr = 1\n[client]\noptimiser.kind = \"sgd\"\n";
    let error = migrate(text, "a.toml").unwrap_err().to_string();
    assert!(error.contains("a.toml:6"), "{error}");
    let text = "schema = 1\n\nclient.optimiser.lr = 1\nclient.optimiser.kind = \"sgd\"\n";
    let changes = migrate(text, "a.toml").unwrap().changes;
    let lines: Vec<(usize, &str)> =
        changes.iter().map(|change| (change.line, &*change.new)).collect();
    assert_eq!(lines, [(1, "schema = 2"), (3, "client.optimizer")]);
}

#[test]
fn errors_have_a_place() {
    let syntax = error("schema = 1\nclient.batch = [1\n");
    assert!(syntax.contains("a.toml:"), "{syntax}");
    let other = error("schema = 3\n");
    assert!(other.contains("this is not schema 1") && other.contains("a.toml:1:10"), "{other}");
    let both = error("schema = 1\n[client]\nbatch = 1\nbatch_size = 2\n");
    assert!(both.contains("a.toml:3:1") && both.contains("`client.batch_size`"), "{both}");
}

/// Every file of this repository.
#[test]
fn shipped_files_are_migrated_once() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let new = migrated(&text);
                assert!(new.contains("schema = 2") || !text.contains("schema = 1"), "{path:?}");
                assert_eq!(new.lines().count(), text.lines().count(), "{path:?}");
                assert_eq!(migrated(&new), new, "{path:?}");
                files += 1;
            }
        }
    }
    assert!(files > 300, "{files}");
}
