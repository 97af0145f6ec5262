//! Published splits of image folders: which images are trained on, which are tested, and of which class they are.
//!
//! Three forms are read as they are published, told apart by the ending of the file:
//!
//! | ending | holds | published so |
//! |---|---|---|
//! | `.yaml`, `.yml` | `data:` a list of paths, `targets:` a list of classes, one part per file | ImageNet-R, release of CODA-Prompt |
//! | `.txt` | a line per image: path and class, or the path alone in the folder of its class, one part per file | lists beside the folders of Zhou et al. 2023 |
//! | `.json` | `train`, `test` (and `val`, which is left out): `[path, class, name]` | EuroSAT and others, release of CoOp |
//!
//! Paths of a list start anywhere above the images (`data/imagenet-r/train/n01443537/art_0.jpg`): as many leading
//! folders are dropped as leave the first image inside the data's folder, and as many from every other path.

mod formats;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::division::Division;
use crate::data::DataError;

/// One image of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// From 1.
    number: usize,
    path: String,
    /// None: the folder of the image is its class.
    class: Option<u32>,
    /// The name of the class, where the list has one.
    name: Option<String>,
}

/// What one file says of one part.
#[derive(Clone, Debug)]
struct Part {
    file: PathBuf,
    lines: Vec<Line>,
}

impl Part {
    /// `list.yaml:17`, for errors.
    fn place(&self, line: &Line) -> PathBuf {
        at(&self.file, line.number)
    }
}

fn at(file: &Path, line: usize) -> PathBuf {
    PathBuf::from(format!("{}:{line}", file.display()))
}

/// A line that says something impossible.
fn wrong(place: PathBuf, expected: impl Into<String>, found: impl Into<String>) -> DataError {
    DataError::Corrupt {
        path: place,
        expected: expected.into(),
        found: found.into(),
        advice: "Fetch the published list again, or correct this line".to_owned(),
    }
}

/// Reads a list of both parts, or one of each, for images below `root`.
///
/// # Errors
/// A file that is not there or of no known form; with the line: an image that is not there, is named twice or has
/// another class than its folder, a class in one part only.
pub(super) fn read(root: &Path, train: &Path, test: &Path) -> Result<Division, DataError> {
    let (train, test) = (formats::part(train, "train")?, formats::part(test, "test")?);
    let classes = Classes::of(&train, &test)?;
    let dropped = leading(root, &train)?;
    let mut seen = BTreeMap::new();
    let train_images = images(root, dropped, &train, &classes, &mut seen)?;
    let test_images = images(root, dropped, &test, &classes, &mut seen)?;
    Ok(Division { class_names: classes.names, train: train_images, test: test_images })
}

/// How many leading folders of a path are above the data.
fn leading(root: &Path, part: &Part) -> Result<usize, DataError> {
    let first = part.lines.first().ok_or_else(|| {
        wrong(part.file.clone(), "at least one image of the training part", "none")
    })?;
    let folders = Path::new(&first.path).components().count();
    (0..folders)
        .find(|dropped| root.join(without(&first.path, *dropped)).is_file())
        .ok_or_else(|| missing(root.join(&first.path), part, first))
}

fn without(path: &str, leading: usize) -> PathBuf {
    Path::new(path).components().skip(leading).collect()
}

fn missing(image: PathBuf, part: &Part, line: &Line) -> DataError {
    DataError::Missing {
        path: image,
        expected: format!("the image that {} names", part.place(line).display()),
        advice: "Check data.path and whether all of the data set is unpacked there".to_owned(),
    }
}

/// Where each image was named first.
type Seen = BTreeMap<PathBuf, PathBuf>;

fn images(
    root: &Path,
    dropped: usize,
    part: &Part,
    classes: &Classes,
    seen: &mut Seen,
) -> Result<Vec<(PathBuf, u32)>, DataError> {
    let image = |line: &Line| {
        let path = root.join(without(&line.path, dropped));
        if !path.is_file() {
            return Err(missing(path, part, line));
        }
        if let Some(first) = seen.insert(path.clone(), part.place(line)) {
            let found = format!("{} again, as in {}", line.path, first.display());
            return Err(wrong(part.place(line), "every image once", found));
        }
        Ok((path, classes.of_line(line)))
    };
    part.lines.iter().map(image).collect()
}

/// The classes of both parts.
struct Classes {
    names: Vec<String>,
    ids: BTreeMap<String, u32>,
}

impl Classes {
    fn of(train: &Part, test: &Part) -> Result<Classes, DataError> {
        let (in_train, in_test) = (Names::of(train)?, Names::of(test)?);
        for (some, part, others, other) in
            [(&in_train, train, &in_test, test), (&in_test, test, &in_train, train)]
        {
            if let Some((name, (line, _))) =
                some.0.iter().find(|(name, _)| !others.0.contains_key(*name))
            {
                return Err(wrong(
                    at(&part.file, *line),
                    format!("classes that {} has, too", other.file.display()),
                    format!("class `{name}`, which is not there"),
                ));
            }
        }
        for (name, (line, class)) in &in_test.0 {
            let taught = in_train.0.get(name).and_then(|(_, class)| *class);
            if taught != *class {
                let number =
                    |class: Option<u32>| class.map_or("none".to_owned(), |c| c.to_string());
                return Err(wrong(
                    at(&test.file, *line),
                    format!(
                        "class {} for `{name}`, as in {}",
                        number(taught),
                        train.file.display()
                    ),
                    number(*class),
                ));
            }
        }
        Classes::numbered(in_train, train)
    }

    /// Numbers as the list gives them, from 0 and without a gap; where it gives none, names in their order.
    fn numbered(names: Names, part: &Part) -> Result<Classes, DataError> {
        let mut order: Vec<(Option<u32>, String)> =
            names.0.iter().map(|(name, (_, class))| (*class, name.clone())).collect();
        order.sort();
        for (id, (class, _)) in order.iter().enumerate() {
            if class.is_some_and(|class| class as usize != id) {
                let found = format!("{} classes, none with number {id}", order.len());
                return Err(wrong(
                    part.file.clone(),
                    "classes counted from 0 without a gap",
                    found,
                ));
            }
        }
        let names: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
        let ids = (0..).zip(&names).map(|(id, name)| (name.clone(), id)).collect();
        Ok(Classes { names, ids })
    }

    fn of_line(&self, line: &Line) -> u32 {
        // Every name was met when the classes were collected.
        self.ids.get(&name_of(line)).copied().unwrap_or_default()
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

/// Names of classes, the line where each stands first, and its number.
struct Names(BTreeMap<String, (usize, Option<u32>)>);

impl Names {
    fn of(part: &Part) -> Result<Names, DataError> {
        let mut names: BTreeMap<String, (usize, Option<u32>)> = BTreeMap::new();
        let mut numbers: BTreeMap<u32, String> = BTreeMap::new();
        for line in &part.lines {
            let name = name_of(line);
            if name.is_empty() {
                let found = format!("`{}`", line.path);
                return Err(wrong(part.place(line), "an image in the folder of its class", found));
            }
            let (first, class) = *names.entry(name.clone()).or_insert((line.number, line.class));
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
                        format!("{} for `{name}`, as on line {first}", said(class)),
                        said(line.class),
                    ),
                };
                return Err(wrong(part.place(line), expected, found));
            }
        }
        Ok(Names(names))
    }
}
