//! The cases: methods of `methods.txt`, each run in the ways of `services.txt`, on what `base.toml` says.

use std::path::Path;

/// Scenario shared by all cases.
pub const BASE: &str = include_str!("base.toml");
const METHODS: &str = include_str!("methods.txt");
const SERVICES: &str = include_str!("services.txt");

/// A small run: a method, or a variant of one, and a way to run it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The line of `methods.txt`, such as `hgp/none`.
    pub method: &'static str,
    /// The line of `services.txt`.
    pub service: &'static str,
    /// Methods that are tested together, in a separate test.
    pub family: &'static str,
    /// True if it runs by default.
    pub by_default: bool,
    /// Overrides of the base, in this order.
    pub overrides: Vec<&'static str>,
}

impl Case {
    /// Returns the name in the table.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.service)
    }

    /// Returns a command that runs the case, to inspect its journal.
    pub fn command(&self) -> String {
        let sets = self.overrides.iter().map(|set| format!(" --set '{set}'"));
        format!("fedcast run tests/library/frozen/base.toml{}", sets.collect::<String>())
    }
}

/// Folder of the files of this test.
pub fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/library/frozen"))
}

/// Names of methods and variants, in the order of their file.
pub fn methods() -> Vec<&'static str> {
    lines::<3>(METHODS).into_iter().map(|[name, ..]| name).collect()
}

/// Names of services, in the order of their file.
pub fn services() -> Vec<&'static str> {
    lines::<4>(SERVICES).into_iter().map(|[name, ..]| name).collect()
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for [method, family, of_method] in lines::<3>(METHODS) {
        for [service, whom, defaults, of_service] in lines::<4>(SERVICES) {
            let defaults: Vec<&str> = defaults.split_whitespace().collect();
            let named = defaults.contains(&method);
            let variant = method.contains('/');
            let meant = match whom {
                "every" => true,
                "main" => !variant,
                other => panic!("services.txt: {service} is for `{other}`, not `every` or `main`"),
            };
            if meant || named {
                cases.push(Case {
                    method,
                    service,
                    family,
                    by_default: named || defaults == ["*"],
                    overrides: overrides(of_method).chain(overrides(of_service)).collect(),
                });
            }
        }
    }
    cases
}

fn overrides(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split(" ; ").map(str::trim).filter(|set| !set.is_empty())
}

/// Cells of all lines that are no comments.
fn lines<const N: usize>(text: &'static str) -> Vec<[&'static str; N]> {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let cells = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        cells.try_into().unwrap_or_else(|_| panic!("{N} cells are expected in: {line}"))
    };
    text.lines().map(str::trim).filter(is_row).map(cells).collect()
}
