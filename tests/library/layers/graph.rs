//! Imports between files, and the circles that they form.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Modules, Names};

/// Files that each file takes something from, relative to `src`.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// Steps after which a chain of `use` lines is given up.
const LONGEST_CHAIN: u32 = 9;

/// Follows the paths of modules to the files that define what they name. Test modules count `with_tests` only.
pub fn graph(modules: &Modules, with_tests: bool) -> Graph {
    let is_test = |here: &[String]| {
        (0..=here.len()).any(|n| modules.get(&here[..n]).is_some_and(|module| module.test))
    };
    let mut graph = Graph::new();
    for (here, module) in modules.iter().filter(|(here, _)| with_tests || !is_test(here)) {
        // A module that re-exports names of its submodules does not depend on them.
        let imports = module.imports.iter().filter(|import| {
            let path = rooted(modules, here, &import.path, 0);
            !(import.public && path.is_some_and(|path| path.starts_with(here)))
        });
        let of_imports = imports.filter_map(|import| {
            let path = rooted(modules, here, &import.path, 0)?;
            match import.name.as_str() {
                "*" => opened_file(modules, &path),
                _ => defining_file(modules, &path, 0),
            }
        });
        let of_paths = module
            .paths
            .iter()
            .filter_map(|path| defining_file(modules, &rooted(modules, here, path, 0)?, 0));
        let files = of_imports.chain(of_paths).filter(|file| *file != module.file);
        graph.entry(module.file.clone()).or_default().extend(files);
    }
    graph
}

/// Returns the path from the root of the library; none for names of other crates and local ones.
fn rooted(modules: &Modules, here: &[String], path: &[String], steps: u32) -> Option<Names> {
    let (first, rest) = path.split_first().filter(|_| steps < LONGEST_CHAIN)?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([here, rest].concat()),
        "super" => {
            let parent = &here[..here.len() - 1];
            match rest.first().is_some_and(|next| next == "super") {
                true => rooted(modules, parent, rest, steps),
                false => Some([parent, rest].concat()),
            }
        }
        _ if modules.contains_key(&[here, &path[..1]].concat()) => Some([here, path].concat()),
        _ => {
            let import = modules[here].imports.iter().find(|import| import.name == *first)?;
            let module = rooted(modules, here, &import.path, steps + 1)?;
            Some([&module, rest].concat())
        }
    }
}

/// Returns the file that defines the item of a path from the root; none for modules themselves.
fn defining_file(modules: &Modules, path: &[String], steps: u32) -> Option<String> {
    let known = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
    let (here, module) = (&path[..known], &modules[&path[..known]]);
    let name = path.get(known)?;
    let handed_on = module.imports.iter().find(|import| import.name == *name);
    let handed_on = handed_on.and_then(|import| rooted(modules, here, &import.path, 0));
    match handed_on.filter(|_| steps < LONGEST_CHAIN) {
        Some(onward) => defining_file(modules, &[&onward, &path[known + 1..]].concat(), steps + 1),
        None => Some(module.file.clone()),
    }
}

/// Returns the file of the module or enum at a path from the root, all names of which are imported.
fn opened_file(modules: &Modules, path: &[String]) -> Option<String> {
    match modules.get(path) {
        Some(module) => Some(module.file.clone()),
        None => defining_file(modules, path, 0),
    }
}

/// Sets of several files of which each reaches all others, the largest first (Kosaraju and Sharir).
pub fn circles(graph: &Graph) -> Vec<BTreeSet<&str>> {
    let (mut ahead, mut back): (Edges, Edges) = Default::default();
    for (from, to) in graph.iter().flat_map(|(from, aims)| aims.iter().map(move |to| (from, to))) {
        ahead.entry(from).or_default().push(to);
        back.entry(to).or_default().push(from);
    }
    let (mut visited, mut done) = (BTreeSet::new(), Vec::new());
    graph.keys().for_each(|file| visit(&ahead, file, &mut visited, &mut done));
    visited.clear();
    let mut circles = Vec::new();
    for file in done.into_iter().rev() {
        let mut circle = Vec::new();
        visit(&back, file, &mut visited, &mut circle);
        circles.extend((circle.len() > 1).then(|| BTreeSet::from_iter(circle)));
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

type Edges<'g> = BTreeMap<&'g str, Vec<&'g str>>;

/// Adds a file behind all that it reaches and that was not visited before.
fn visit<'g>(
    edges: &Edges<'g>,
    file: &'g str,
    visited: &mut BTreeSet<&'g str>,
    done: &mut Vec<&'g str>,
) {
    if visited.insert(file) {
        edges.get(file).into_iter().flatten().for_each(|next| visit(edges, next, visited, done));
        done.push(file);
    }
}
