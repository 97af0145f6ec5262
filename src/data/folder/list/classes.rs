//! The classes that lists name, and their numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Line, Part, wrong};
use crate::data::DataError;

/// The classes of both parts.
pub(super) struct Classes {
    names: Vec<String>,
    ids: BTreeMap<String, u32>,
}

impl Classes {
    pub fn of(train: &[Part], test: &[Part]) -> Result<Classes, DataError> {
        let (in_train, in_test) = (Names::of(train)?, Names::of(test)?);
        for (some, others, other) in [(&in_train, &in_test, test), (&in_test, &in_train, train)] {
            if let Some((name, (place, _))) =
                some.0.iter().find(|(name, _)| !others.0.contains_key(*name))
            {
                return Err(wrong(
                    place.clone(),
                    format!("classes that {} has, too", files(other)),
                    format!("class `{name}`, which is not there"),
                ));
            }
        }
        for (name, (place, class)) in &in_test.0 {
            let taught = in_train.0.get(name).and_then(|(_, class)| *class);
            if taught != *class {
                let number =
                    |class: Option<u32>| class.map_or("none".to_owned(), |c| c.to_string());
                return Err(wrong(
                    place.clone(),
                    format!("class {} for `{name}`, as in {}", number(taught), files(train)),
                    number(*class),
                ));
            }
        }
        Classes::numbered(in_train, train)
    }

    /// Numbers as the list gives them, from 0 and without a gap; where it gives none, names in their order.
    fn numbered(names: Names, parts: &[Part]) -> Result<Classes, DataError> {
        let mut order: Vec<(Option<u32>, String)> =
            names.0.iter().map(|(name, (_, class))| (*class, name.clone())).collect();
        order.sort();
        for (id, (class, _)) in order.iter().enumerate() {
            if class.is_some_and(|class| class as usize != id) {
                let found = format!("{} classes, none with number {id}", order.len());
                return Err(wrong(
                    PathBuf::from(files(parts)),
                    "classes counted from 0 without a gap",
                    found,
                ));
            }
        }
        let names: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
        let ids = (0..).zip(&names).map(|(id, name)| (name.clone(), id)).collect();
        Ok(Classes { names, ids })
    }

    pub fn of_line(&self, line: &Line) -> u32 {
        // Every name was met when the classes were collected.
        self.ids.get(&name_of(line)).copied().unwrap_or_default()
    }

    /// In the order of their numbers.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// The name of a line's class: the list's, or the folder of the image.
fn name_of(line: &Line) -> String {
    let folder = || {
        let folder = Path::new(&line.path).parent().and_then(Path::file_name);
        folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    line.name.clone().unwrap_or_else(folder)
}

/// The lists of a part, for errors.
fn files(parts: &[Part]) -> String {
    let names: Vec<String> = parts.iter().map(|part| part.file.display().to_string()).collect();
    names.join(", ")
}

/// Names of classes, where each stands first, and its number.
struct Names(BTreeMap<String, (PathBuf, Option<u32>)>);

impl Names {
    fn of(parts: &[Part]) -> Result<Names, DataError> {
        let mut names: BTreeMap<String, (PathBuf, Option<u32>)> = BTreeMap::new();
        let mut numbers: BTreeMap<u32, String> = BTreeMap::new();
        let lines = parts.iter().flat_map(|part| part.lines.iter().map(move |line| (part, line)));
        for (part, line) in lines {
            let name = name_of(line);
            if name.is_empty() {
                let found = format!("`{}`", line.path);
                return Err(wrong(part.place(line), "an image in the folder of its class", found));
            }
            let (first, class) =
                names.entry(name.clone()).or_insert((part.place(line), line.class)).clone();
            let other = line.class.and_then(|class| {
                let known = numbers.entry(class).or_insert_with(|| name.clone());
                (*known != name).then(|| known.clone())
            });
            if class != line.class || other.is_some() {
                let said = |class: Option<u32>| match class {
                    Some(class) => format!("class {class}"),
                    None => "no class".to_owned(),
                };
                let (expected, found) = match other {
                    Some(other) => (
                        format!("class {} for `{other}` only", line.class.unwrap_or_default()),
                        format!("it for `{name}`"),
                    ),
                    None => (
                        format!("{} for `{name}`, as in {}", said(class), first.display()),
                        said(line.class),
                    ),
                };
                return Err(wrong(part.place(line), expected, found));
            }
        }
        Ok(Names(names))
    }
}
