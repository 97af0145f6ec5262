//! Modules in source text: their `use` lines and the other paths that they write.

use std::collections::BTreeMap;
use std::path::Path;

/// Names of modules, outermost first, perhaps with an item at the end.
pub type Names = Vec<String>;

/// One path of a `use` line.
#[derive(Debug)]
pub struct Import {
    /// Path as it is written.
    pub path: Names,
    /// Name by which the module knows it; `*` for all names of another module.
    pub name: String,
    /// True for `pub use`, of any visibility.
    pub public: bool,
}

/// Paths of one module.
#[derive(Debug, Default)]
pub struct Module {
    /// File that holds the module, relative to `src`.
    pub file: String,
    /// Paths of `use` lines.
    pub imports: Vec<Import>,
    /// Paths and names written elsewhere.
    pub paths: Vec<Names>,
    /// True if only tests are built with it.
    pub test: bool,
}

/// All modules by their names from the root of the library.
pub type Modules = BTreeMap<Names, Module>;

/// Reads the modules of a folder.
pub fn read_folder(src: &Path) -> Modules {
    let mut modules = Modules::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            // A folder with a manifest is a separate package.
            if path.is_dir() && !path.join("Cargo.toml").exists() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(src).expect("a file below").to_str().expect("UTF-8");
                let text = std::fs::read_to_string(&path).expect("a source");
                read_file(file, &text, &mut modules);
            }
        }
    }
    modules
}

/// Adds the module of a file and its inline modules.
pub fn read_file(file: &str, text: &str, modules: &mut Modules) {
    let tokens = tokens(text);
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let mut here: Names = stem.split('/').filter(|name| *name != "lib").map(String::from).collect();
    modules.entry(here.clone()).or_default().file = file.into();
    // Depths of braces at which the inline modules around this token end.
    let mut ends = Vec::new();
    let (mut depth, mut at, mut item) = (0, 0, 0);
    while at < tokens.len() {
        match token(at) {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if ends.pop_if(|end| *end == depth).is_some() {
                    here.pop();
                }
            }
            "mod" if matches!(token(at + 2), ";" | "{") => {
                let child = modules.entry([&here, &tokens[at + 1..at + 2]].concat()).or_default();
                child.test |= tokens[item..at].iter().any(|token| token == "test");
                if token(at + 2) == "{" {
                    child.file = file.into();
                    here.push(tokens[at + 1].clone());
                    ends.push(depth);
                }
                // The brace is read next.
                at += 1;
            }
            "use" => {
                let public = at > 0 && matches!(token(at - 1), "pub" | ")");
                let mut leaves = Vec::new();
                at = use_tree(&tokens, at + 1, &mut Vec::new(), &mut leaves);
                let imports = leaves.into_iter().map(|(path, name)| Import { path, name, public });
                modules.entry(here.clone()).or_default().imports.extend(imports);
            }
            first if is_name(first) => {
                let mut path = vec![first.to_string()];
                while token(at + 1) == "::" && is_name(token(at + 2)) {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                modules.entry(here.clone()).or_default().paths.push(path);
            }
            _ => {}
        }
        if matches!(token(at), ";" | "{" | "}") {
            item = at + 1;
        }
        at += 1;
    }
}

/// Adds the paths, with their names, of the `use` tree that begins `at`; returns the place behind it.
fn use_tree(
    tokens: &[String],
    mut at: usize,
    before: &mut Names,
    leaves: &mut Vec<(Names, String)>,
) -> usize {
    let depth = before.len();
    while tokens[at] == "::" || tokens[at + 1] == "::" {
        before.extend((tokens[at] != "::").then(|| tokens[at].clone()));
        at += 1;
    }
    if tokens[at] == "{" {
        at += 1;
        while tokens[at] != "}" {
            at = use_tree(tokens, at, before, leaves);
            at += usize::from(tokens[at] == ",");
        }
    } else {
        let last = tokens[at].clone();
        let mut path = before.clone();
        path.extend((!matches!(last.as_str(), "self" | "*")).then(|| last.clone()));
        let mut name = if last == "self" { path[path.len() - 1].clone() } else { last };
        if tokens[at + 1] == "as" {
            name = tokens[at + 2].clone();
            at += 2;
        }
        leaves.push((path, name));
    }
    before.truncate(depth);
    at + 1
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, `::` and single signs, without comments, strings, characters and numbers.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = || rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let character =
            first == '\'' && (rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\''));
        let (length, keep) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => {
                (rest.find("*/").map_or(rest.len(), |at| at + 2), false)
            }
            'r' | 'b' if raw_string(rest).is_some() => (raw_string(rest).expect("one"), false),
            '"' => (quoted(rest), false),
            '\'' if character => (quoted(rest), false),
            _ if first.is_whitespace() => (first.len_utf8(), false),
            _ if first.is_ascii_digit() => (word(), false),
            _ if is_name(rest) => (word(), true),
            _ if rest.starts_with("::") => (2, true),
            _ => (first.len_utf8(), true),
        };
        tokens.extend(keep.then(|| rest[..length].to_string()));
        rest = &rest[length..];
    }
    tokens
}

/// Length of the string or character that the text begins with.
fn quoted(text: &str) -> usize {
    let mut signs = text.char_indices();
    let quote = signs.next().map(|(_, quote)| quote);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            _ if Some(sign) == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the raw string that the text begins with, if it begins with one.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let inner = after.trim_start_matches('#');
    let begin = text.len() - inner.len() + 1;
    let end = format!("\"{}", &after[..after.len() - inner.len()]);
    inner.strip_prefix('"')?.find(&end).map(|at| begin + at + end.len())
}
