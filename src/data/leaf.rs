//! LEAF's JSON files, as its preprocessing of FEMNIST writes them: users are natural clients.
//!
//! `train/*.json` and `test/*.json` hold `users`, and for each in `user_data` a list `x` of 784 numbers from 0 to 1,
//! row by row (ink is dark, as published: nothing is turned or inverted), and a list `y` of classes. A user of several
//! files is one. Source: Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018, <https://leaf.cmu.edu>.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::foreign::foreign;
use super::labels::{LabelReader, RowPlace};
use super::parts::{DatasetParts, Part, PartFile};
use super::store::Store;
use super::{Cause, DataError, Dataset, TestFraction};
use crate::files::{self, FileKind};

/// Image height and width in pixels.
const SIDE: usize = 28;

/// Fields of a file that are read.
#[derive(Deserialize)]
struct File {
    users: Vec<String>,
    #[serde(deserialize_with = "entries")]
    user_data: Vec<(String, User)>,
}

#[derive(Deserialize)]
struct User {
    x: Vec<Vec<f32>>,
    y: Vec<LeafClass>,
}

/// Class as JSON has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum LeafClass {
    Whole(i64),
    Float(f64),
    Text(String),
    Missing(()),
}

/// Deserializes all entries of a JSON object, including those that share a key.
fn entries<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<(String, User)>, D::Error> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(String, User)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the data of every user")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut found = Vec::new();
            while let Some(entry) = map.next_entry()? {
                found.push(entry);
            }
            Ok(found)
        }
    }
    source.deserialize_map(Entries)
}

/// Reads `train` and `test` of a folder or of its folder `data`. With `share`, the files of one folder are divided
/// instead.
///
/// # Errors
/// Returns an error if files are missing, JSON has another form, or images have another size.
pub fn open(path: &Path, share: Option<TestFraction>) -> Result<Dataset, DataError> {
    let name = path.file_name().map_or("leaf".into(), |name| name.to_string_lossy().into_owned());
    let inner = path.join("data");
    let root = if inner.join("train").is_dir() { inner.as_path() } else { path };
    let (train, test) = match root.join("train").is_dir() {
        true => {
            let test = root.join("test");
            let test = test.is_dir().then(|| part(&test)).transpose()?;
            (part(&root.join("train"))?, test)
        }
        false => (part(root)?, None),
    };
    DatasetParts { name, train, test, notes: Vec::new() }.into_dataset(share)
}

fn part(folder: &Path) -> Result<Part, DataError> {
    let (mut bytes, mut files) = (Vec::new(), Vec::new());
    for path in listed(folder)? {
        let mut labels = LabelReader::new(&path, "y");
        let mut owners = LabelReader::new(&path, "users");
        for (user, of_user) in read(&path)? {
            let User { x, y } = of_user;
            if x.len() != y.len() {
                let found = format!("{} for {} of user `{user}`", y.len(), x.len());
                let expected = "a class for every image";
                return Err(DataError::because(Cause::OtherContent, &path, expected, found));
            }
            for (at, (image, class)) in x.iter().zip(y).enumerate() {
                let place = || RowPlace::Named(format!("image {at} of user `{user}`"));
                push(image, &mut bytes).map_err(|(expected, found)| {
                    let found = format!("{found} in image {at} of user `{user}`");
                    DataError::because(Cause::OtherContent, &path, expected, found)
                })?;
                match class {
                    LeafClass::Whole(class) => labels.push_whole(class),
                    LeafClass::Float(class) => labels.push_float(class, place)?,
                    LeafClass::Text(class) => labels.push_text(&class, place)?,
                    LeafClass::Missing(()) => return Err(labels.missing("null", &place())),
                }
                owners.push_text(&user, place)?;
            }
        }
        let (labels, owners) = (labels.finish(), Some(owners.finish()));
        files.push(PartFile { place: path, labels, owners, columns: None });
    }
    Ok(Part { files, samples: Store::Buffer { bytes, shape: [1, SIDE, SIDE] } })
}

/// Appends an image as bytes.
///
/// # Errors
/// Returns what was expected and what was found.
fn push(image: &[f32], bytes: &mut Vec<u8>) -> Result<(), (&'static str, String)> {
    if image.len() != SIDE * SIDE {
        return Err(("784 numbers for every image", image.len().to_string()));
    }
    if let Some(value) = image.iter().find(|value| !(0.0..=1.0).contains(*value)) {
        return Err(("numbers from 0 to 1", value.to_string()));
    }
    bytes.extend(image.iter().map(|value| (value * 255.0).round() as u8));
    Ok(())
}

/// Returns the users of a file, in file order.
fn read(path: &Path) -> Result<Vec<(String, User)>, DataError> {
    let failed = |e| DataError::io(path, "a file of LEAF", e);
    let mut file = BufReader::new(files::open(path, FileKind::Data).map_err(failed)?);
    files::skip_mark(&mut file).map_err(failed)?;
    let read: Result<File, _> = serde_json::from_reader(file);
    let File { users, user_data } = read.map_err(|error| {
        let expected = "`users` and `user_data` with `x` and `y` of each, as LEAF writes them";
        let cause = if error.is_eof() { Cause::Damaged } else { Cause::OtherContent };
        foreign(path)
            .unwrap_or_else(|| DataError::because(cause, path, expected, error.to_string()))
    })?;
    let once = |found: String| {
        let expected = "`user_data` of every user, once";
        DataError::because(Cause::OtherContent, path, expected, found)
    };
    let mut known: BTreeMap<String, User> = BTreeMap::new();
    for (user, data) in user_data {
        if known.contains_key(&user) {
            return Err(once(format!("`{user}` twice")));
        }
        known.insert(user, data);
    }
    let data = |user: String| match known.remove(&user) {
        Some(found) => Ok((user, found)),
        None => Err(once(format!("none of `{user}`"))),
    };
    let found = users.into_iter().map(data).collect::<Result<_, _>>()?;
    match known.keys().next() {
        None => Ok(found),
        Some(user) => Err(DataError::because(
            Cause::OtherContent,
            path,
            "every user of `user_data` in `users`",
            format!("`{user}` in the first only"),
        )),
    }
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(folder, "a folder with LEAF's JSON files", e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(DataError::Missing {
            path: folder.join("*.json"),
            expected: "LEAF's files, in train and test".to_owned(),
            advice: "Run LEAF's preprocess.sh and name its folder `data` in data.path".to_owned(),
        });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(users: &[(&str, &[(u8, i64)])]) -> String {
        let data: BTreeMap<&str, serde_json::Value> = users
            .iter()
            .map(|(user, samples)| {
                let x: Vec<Vec<f32>> = samples
                    .iter()
                    .map(|(ink, _)| vec![f32::from(*ink) / 255.0; SIDE * SIDE])
                    .collect();
                let y: Vec<i64> = samples.iter().map(|(_, class)| *class).collect();
                (*user, serde_json::json!({ "x": x, "y": y }))
            })
            .collect();
        let names: Vec<&str> = users.iter().map(|(user, _)| *user).collect();
        let counts: Vec<usize> = users.iter().map(|(_, samples)| samples.len()).collect();
        serde_json::json!({ "users": names, "num_samples": counts, "user_data": data }).to_string()
    }

    fn sample(train: &[String], test: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (part, texts) in [("train", train), ("test", &[test.to_owned()])] {
            std::fs::create_dir(root.path().join(part)).unwrap();
            for (number, text) in texts.iter().enumerate() {
                let name = format!("{part}/all_data_{number}_niid_0.json");
                std::fs::write(root.path().join(name), text).unwrap();
            }
        }
        root
    }

    #[test]
    fn users_are_owners_whatever_file_they_are_in() {
        let first = file(&[("w2", &[(7, 1), (9, 0)]), ("w1", &[(255, 1)])]);
        let root = sample(
            &[first, format!("\u{feff}{}", file(&[("w2", &[(0, 3)])]))],
            &file(&[("w1", &[(1, 0), (2, 1), (3, 3)])]),
        );
        let data = open(root.path(), None).unwrap();
        assert_eq!(data.class_names, ["0", "1", "3"]);
        assert_eq!(data.train.labels(), [1, 0, 1, 2]);
        assert_eq!(data.train.owners().unwrap(), [1, 1, 0, 1], "numbers in the order of names");
        let inks: Vec<u8> = (0..4).map(|at| data.train.image(at).unwrap().pixels[0]).collect();
        assert_eq!(inks, [7, 9, 255, 0]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_user() {
        let right = file(&[("w1", &[(1, 0), (2, 1)])]);
        let error = |train: String| {
            let root = sample(&[train], &right);
            open(root.path(), None).unwrap_err().to_string()
        };
        let cases = [
            (
                right.replace("\"y\":[0,1]", "\"y\":[0]"),
                "a class for every image, found 1 for 2 of user `w1`",
            ),
            (right.replace("\"y\":[0,1]", "\"z\":[0,1]"), "missing field `y`"),
            (right.replace("\"users\":[\"w1\"]", "\"users\":[\"w1\",\"w3\"]"), "none of `w3`"),
            (right.replace("\"users\":[\"w1\"]", "\"users\":[]"), "`w1` in the first only"),
            (right[..right.len() / 2].to_owned(), "EOF"),
            (right.replacen("[0.00", "[7,0.00", 1), "785 in image 0 of user `w1`"),
            (right.replacen("[0.00", "[7.00", 1), "numbers from 0 to 1"),
            (
                right.replace("\"y\":[0,1]", "\"y\":[0,null]"),
                "a value of `y` in every row, found `null` in image 1 of user `w1`",
            ),
            (right.replace("\"y\":[0,1]", "\"y\":[0,\"\"]"), "found none in image 1"),
            (right.replace("\"y\":[0,1]", "\"y\":[0,0.5]"), "0.5 in row 1"),
            (
                right.replace("\"user_data\":{", "\"user_data\":{\"w1\":{\"x\":[],\"y\":[]},"),
                "found `w1` twice",
            ),
            ("version https://git-lfs.github.com/spec/v1".to_owned(), "a pointer of Git LFS"),
        ];
        for (text, expected) in cases {
            let found = error(text);
            assert!(found.contains(expected), "{found}\ninstead of\n{expected}");
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(open(empty.path(), None).unwrap_err().to_string().contains("preprocess.sh"));
    }
}
