//! Published formats of image lists.

use std::path::{Path, PathBuf};

use super::{ImageLine, ImageList, at, wrong};
use crate::data::{Cause, DataError};

/// Returns the lines of one part, `train` or `test`. Only JSON files hold both parts and name them.
pub(in crate::data::folder) fn part(file: &Path, part: &str) -> Result<ImageList, DataError> {
    let text = crate::files::read_text(file, crate::files::FileKind::Table)
        .map_err(|error| DataError::io(file, "the list of a split", error))?;
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let lines = match ending.as_deref() {
        Some("yaml" | "yml") => yaml(file, &text),
        Some("txt") => plain(file, &text),
        Some("json") => json(file, &text, part),
        _ => {
            return Err(DataError::unfit(
                format!("{}: a list of unknown form", file.display()),
                "give a list that ends with .yaml, .txt or .json",
            ));
        }
    }?;
    Ok(ImageList { file: file.to_owned(), lines })
}

/// Parses `data:` and `targets:`, each followed by lines `- value`, as PyYAML writes two lists.
fn yaml(file: &Path, text: &str) -> Result<Vec<ImageLine>, DataError> {
    let (mut paths, mut classes) = (Vec::new(), Vec::new());
    let mut open = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let broken = |expected: &str| wrong(at(file, number), expected, format!("`{line}`"));
        match (line, open) {
            ("" | "---", _) => {}
            ("data:" | "targets:", _) => open = Some(line),
            (_, Some(list)) => {
                let value = line.strip_prefix("- ").ok_or_else(|| broken("`- ` and a value"))?;
                let value = value.trim().trim_matches(['\'', '"']);
                if list == "data:" {
                    paths.push((number, value.to_owned()));
                } else {
                    let class = value.parse::<i64>();
                    let class = class.map_err(|_| broken("`- ` and the number of a class"))?;
                    let known = u32::try_from(class);
                    classes.push((number, known.map_err(|_| no_class(at(file, number), class))?));
                }
            }
            _ => return Err(broken("`data:` or `targets:`")),
        }
    }
    if paths.len() != classes.len() {
        // The first line without a counterpart.
        let (number, found) = match paths.get(classes.len()) {
            Some((number, _)) => (*number, "none for this image"),
            None => (classes[paths.len()].0, "one for which there is no image"),
        };
        return Err(wrong(
            at(file, number),
            "a class in `targets` for every image of `data`",
            found,
        ));
    }
    let line =
        |((number, path), (_, class))| ImageLine { number, path, class: Some(class), name: None };
    Ok(paths.into_iter().zip(classes).map(line).collect())
}

/// Parses lines `path class` or `path`, optionally in quotes.
fn plain(file: &Path, text: &str) -> Result<Vec<ImageLine>, DataError> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let line = |(number, line): (usize, &str)| {
        let numbered = line.rsplit_once([' ', '\t', ',']).and_then(|(path, class)| {
            let class: i64 = unquoted(class).parse().ok()?;
            Some((path.trim_end_matches([' ', '\t', ',']), class))
        });
        let (path, class) = match numbered {
            None => (line, None),
            Some((path, class)) => {
                let known = u32::try_from(class);
                (path, Some(known.map_err(|_| no_class(at(file, number), class))?))
            }
        };
        Ok(ImageLine { number, path: unquoted(path).to_owned(), class, name: None })
    };
    lines.map(line).collect()
}

/// Returns the error for a number that cannot be a class.
fn no_class(place: PathBuf, number: i64) -> DataError {
    let cause = if number < 0 { Cause::Unlabeled } else { Cause::UnknownLabel };
    DataError::because(cause, &place, "the number of a class", number.to_string())
}

/// Returns a text without the quotes that some programs put around it.
fn unquoted(text: &str) -> &str {
    let inner = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Parses `{"train": [[path, class, name], ..], "val": .., "test": ..}`.
fn json(file: &Path, text: &str, part: &str) -> Result<Vec<ImageLine>, DataError> {
    let document: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| wrong(at(file, error.line()), "JSON", error.to_string()))?;
    let Some(list) = document.get(part).and_then(serde_json::Value::as_array) else {
        return Err(wrong(file.to_owned(), format!("a list `{part}`"), "none"));
    };
    // The parser drops line numbers. Paths come in the order of the text, so each is searched behind the previous one.
    let mut end = text.find(&format!("\"{part}\"")).unwrap_or_default();
    let mut number = 1 + text[..end].matches('\n').count();
    let mut lines = Vec::with_capacity(list.len());
    for entry in list {
        let path = entry.get(0).and_then(serde_json::Value::as_str);
        let quoted = path.map(|path| format!("\"{path}\""));
        let found = quoted.and_then(|quoted| Some((text[end..].find(&quoted)?, quoted.len())));
        if let Some((skipped, length)) = found {
            number += text[end..end + skipped].matches('\n').count();
            end += skipped + length;
        }
        let class_number = entry.get(1).and_then(serde_json::Value::as_i64);
        if let Some(negative) = class_number.filter(|class| *class < 0) {
            return Err(no_class(at(file, number), negative));
        }
        let class = class_number.and_then(|class| u64::try_from(class).ok());
        let class = class.and_then(|class| u32::try_from(class).ok());
        let (Some(path), Some(class)) = (path, class) else {
            let expected = "[\"path\", class, \"name of the class\"]";
            return Err(wrong(at(file, number), expected, entry.to_string()));
        };
        let name = entry.get(2).and_then(serde_json::Value::as_str).map(str::to_owned);
        lines.push(ImageLine { number, path: path.to_owned(), class: Some(class), name });
    }
    Ok(lines)
}
