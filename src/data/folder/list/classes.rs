//! Classes that lists name, and their numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{ImageLine, ImageList, wrong};
use crate::data::{Cause, DataError, normal_form};

/// Classes of both parts.
pub(super) struct Classes {
    names: Vec<String>,
    ids: BTreeMap<String, u32>,
    /// Number that the list gives to the first class: 0 or 1.
    first: u32,
}

impl Classes {
    pub fn of(train: &[ImageList], test: &[ImageList]) -> Result<Classes, DataError> {
        let (in_train, in_test) = (ListedClassNames::of(train)?, ListedClassNames::of(test)?);
        // A class without test images has no accuracy, but one without training images cannot be learned.
        if let Some((name, (place, _))) =
            in_test.0.iter().find(|(name, _)| !in_train.0.contains_key(*name))
        {
            return Err(DataError::because(
                Cause::ClassWithoutSamples,
                place,
                format!("classes that {} has, too", files(train)),
                format!("class `{name}`, which is not there"),
            ));
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

    /// Returns the classes with numbers without a gap. They are those of the list, which count from 0 or 1, or follow
    /// the order of names if it gives none.
    fn numbered(names: ListedClassNames, parts: &[ImageList]) -> Result<Classes, DataError> {
        let mut order: Vec<(Option<u32>, String)> =
            names.0.iter().map(|(name, (_, class))| (*class, name.clone())).collect();
        order.sort();
        let first = order.first().and_then(|(class, _)| *class).unwrap_or_default().min(1);
        for (id, (class, _)) in (first..).zip(&order) {
            if class.is_some_and(|class| class != id) {
                return Err(DataError::advised(
                    &PathBuf::from(files(parts)),
                    "classes counted from 0 or 1 without a gap",
                    format!("{} classes, none with number {id}", order.len()),
                    "Number the classes one after the other, without those that are left out",
                ));
            }
        }
        let names: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
        let ids = (0..).zip(&names).map(|(id, name)| (name.clone(), id)).collect();
        Ok(Classes { names, ids, first })
    }

    /// Returns notes for the user about the numbering.
    pub fn notes(&self) -> Vec<String> {
        let counts_from_one = (self.first == 1).then(|| {
            format!("the list counts its classes from 1: class 0 here is `{}`", self.names[0])
        });
        counts_from_one.into_iter().collect()
    }

    pub fn of_line(&self, line: &ImageLine) -> u32 {
        // All names were collected before, so the lookup succeeds.
        self.ids.get(&name_of(line)).copied().unwrap_or_default()
    }

    /// Returns the names in the order of their numbers.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// Returns the class name of a line: the one in the list, or the folder of the image.
fn name_of(line: &ImageLine) -> String {
    let folder = || {
        let folder = Path::new(&line.path).parent().and_then(Path::file_name);
        folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    normal_form(&line.name.clone().unwrap_or_else(folder))
}

/// Returns the paths of the list files, for errors.
fn files(parts: &[ImageList]) -> String {
    let names: Vec<String> = parts.iter().map(|part| part.file.display().to_string()).collect();
    names.join(", ")
}

/// Place of first mention and number, by class name.
struct ListedClassNames(BTreeMap<String, (PathBuf, Option<u32>)>);

impl ListedClassNames {
    fn of(parts: &[ImageList]) -> Result<ListedClassNames, DataError> {
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
                let described = |class: Option<u32>| match class {
                    Some(class) => format!("class {class}"),
                    None => "no class".to_owned(),
                };
                let (expected, found) = match other {
                    Some(other) => (
                        format!("class {} for `{other}` only", line.class.unwrap_or_default()),
                        format!("it for `{name}`"),
                    ),
                    None => (
                        format!("{} for `{name}`, as in {}", described(class), first.display()),
                        described(line.class),
                    ),
                };
                return Err(wrong(part.place(line), expected, found));
            }
        }
        Ok(ListedClassNames(names))
    }
}
