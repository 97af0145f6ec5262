//! Layers: a room of `src` imports only from rooms on floors below its own, and few files form a circle.
//!
//! Read from the sources. A circle is a set of files of which each needs all others, directly or through others;
//! modules that only tests are built with count for the floors alone.

mod graph;
mod source;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use graph::{Graph, circles, graph};
use source::{Modules, read_file, read_folder};

/// Rooms of the library, floor by floor from the top. Rooms of one floor import nothing from each other.
const FLOORS: [&[&str]; 17] = [
    &["cli", "prelude"],
    &["page"],
    &["study"],
    &["results"],
    &["report"],
    &["experiment"],
    &["methods", "federation"],
    &["policy"],
    &["learning"],
    &["model"],
    &["data", "wire"],
    &["scenario"],
    &["fetch"],
    &["weights"],
    &["files"],
    &["exit", "numerics", "quantity"],
    &["document"],
];

/// Files outside the layers: pages of the guide, and the tool of tests with golden vectors.
const NO_ROOMS: [&str; 2] = ["golden", "guide"];

/// Files of a circle at most.
const CIRCLE: usize = 5;

static LIBRARY: LazyLock<Modules> =
    LazyLock::new(|| read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));

/// The floor of a file, from the top.
fn floor(file: &str) -> Option<usize> {
    let room = file.split('/').next()?.trim_end_matches(".rs");
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// Imports that do not lead to a lower floor, as lines of text.
fn upward(graph: &Graph) -> Vec<String> {
    let is_same_room = |a: &str, b: &str| a.split('/').next() == b.split('/').next();
    let edges = graph.iter().flat_map(|(from, aims)| aims.iter().map(move |to| (from, to)));
    let upward = edges.filter(|(from, to)| {
        let floors = floor(from).zip(floor(to));
        floors.is_some_and(|(from, to)| to <= from) && !is_same_room(from, to)
    });
    upward.map(|(from, to)| format!("{from} imports from {to}")).collect()
}

/// Circles of too many files, as lines of text.
fn large(graph: &Graph) -> Vec<String> {
    let large = circles(graph).into_iter().filter(|circle| circle.len() > CIRCLE);
    large.map(|circle| format!("{} files need each other: {circle:?}", circle.len())).collect()
}

#[test]
fn rooms_import_only_from_lower_floors() {
    assert_eq!(upward(&graph(&LIBRARY, true)), [""; 0]);
}

#[test]
fn rooms_are_on_one_floor_each() {
    let rooms: BTreeSet<_> = LIBRARY.keys().filter(|names| names.len() == 1).collect();
    let rooms = rooms.iter().map(|names| names[0].as_str());
    let mut rooms: Vec<_> =
        rooms.filter(|room| !NO_ROOMS.contains(room) && *room != "main").collect();
    let mut known = FLOORS.concat();
    known.sort_unstable();
    rooms.sort_unstable();
    assert_eq!(rooms, known);
}

#[test]
fn circles_of_files_are_small() {
    assert_eq!(large(&graph(&LIBRARY, false)), [""; 0]);
}

#[test]
fn the_architecture_page_draws_the_floors() {
    let page = include_str!("../../../src/guide/architecture.md");
    let floors = FLOORS.map(|rooms| format!("{:^32}", rooms.join("     ")).trim_end().to_string());
    assert!(page.contains(&floors.join("\n")), "the drawing is\n{}", floors.join("\n"));
}

/// Modules of sources that are given by name.
fn sources(files: &[(&str, &str)]) -> Modules {
    let mut modules = Modules::new();
    files.iter().for_each(|(file, text)| read_file(file, text, &mut modules));
    modules
}

/// Imports upward if `data/seed.rs` holds this text, and `cli` hands on what `cli/exit.rs` defines.
fn upward_from_seed(text: &str) -> Vec<String> {
    let files = [
        ("cli/mod.rs", "mod exit; pub use exit::Exit;"),
        ("cli/exit.rs", "use crate::data::Seed; pub struct Exit;"),
        ("data/mod.rs", "mod seed; pub use self::seed::Seed;"),
        ("data/seed.rs", text),
    ];
    upward(&graph(&sources(&files), true))
}

#[test]
fn imports_upward_are_found_however_they_are_written() {
    let spellings = [
        "use crate::cli::Exit;",
        "use crate::{cli::{self as above}, wire}; fn f() { above::Exit::done() }",
        "fn f(exit: Option<crate::cli::exit::Exit>) {}",
        "#[cfg(test)] mod tests { use super::super::super::cli::Exit as E; }",
        "use inner::*; mod inner { use crate::cli; type Code = cli::Exit; }",
        "const A: &str = r#\"\"#; const B: char = '\"'; use crate::cli::Exit; // \"",
    ];
    for text in spellings {
        assert_eq!(upward_from_seed(text), ["data/seed.rs imports from cli/exit.rs"], "{text}");
    }
    // Names of a glob import are not followed, its module is.
    let globs = [
        "use crate::cli::*; fn f(exit: Exit) {}",
        "use crate::{cli::*, wire}; fn f(exit: Exit) {}",
        "use crate::cli; use cli::*;",
    ];
    for text in globs {
        assert_eq!(upward_from_seed(text), ["data/seed.rs imports from cli/mod.rs"], "{text}");
    }
    let of_enum = upward_from_seed("use crate::cli::Exit::*;");
    assert_eq!(of_enum, ["data/seed.rs imports from cli/exit.rs"]);
    let innocent =
        "// use crate::cli::Exit;\nconst A: &str = \"crate::cli::Exit\"; use crate::wire::Exit;";
    let files = [("cli/mod.rs", ""), ("data/mod.rs", innocent)];
    assert_eq!(upward(&graph(&sources(&files), true)), [""; 0]);
}

#[test]
fn circles_are_found_through_other_files() {
    let ring = |of: usize| {
        let text = |at| format!("use super::f{0}::F{0}; pub struct F{at};", (at + 1) % of);
        let files: Vec<_> = (0..of).map(|at| (format!("data/f{at}.rs"), text(at))).collect();
        let files: Vec<_> = files.iter().map(|(file, text)| (&**file, &**text)).collect();
        graph(&sources(&files), false)
    };
    assert_eq!(large(&ring(CIRCLE)).len(), 0);
    assert_eq!(large(&ring(CIRCLE + 1)).len(), 1);
    // Tests may need what is above them.
    let above = "#[cfg(test)] mod tests { use crate::data::Data; } pub struct Part;";
    let files = [
        ("data/mod.rs", "mod part; use part::Part; pub struct Data(Part);"),
        ("data/part.rs", above),
    ];
    assert_eq!(circles(&graph(&sources(&files), false)).len(), 0);
    assert_eq!(circles(&graph(&sources(&files), true)).len(), 1);
}
