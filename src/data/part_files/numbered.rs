//! Files that number themselves, such as `train-00003-of-00014.parquet`. Each number must be there once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::data::{Cause, DataError};

/// Returns number and count of a file named like `train-00003-of-00014.parquet`.
pub(super) fn numbered(file: &Path) -> Option<(usize, usize)> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let (before, behind) = name.split_once("-of-")?;
    let number = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    let count: String = behind.chars().take_while(char::is_ascii_digit).collect();
    Some((number.parse().ok()?, count.parse().ok()?))
}

/// Checks that every file of a numbered set is there once, which an interrupted download would violate.
pub(super) fn whole(files: &[PathBuf]) -> Result<(), DataError> {
    let Some(first) = files.first() else { return Ok(()) };
    let Some((_, count)) = numbered(first) else { return Ok(()) };
    let mut known: BTreeMap<usize, &PathBuf> = BTreeMap::new();
    for file in files {
        let expected = format!("files of one set, of {count}");
        let number = match numbered(file) {
            Some((number, all)) if all == count && number < count => number,
            _ => {
                let found = format!("{} next to them", file.display());
                return Err(DataError::because(Cause::Twice, first, expected, found));
            }
        };
        if let Some(other) = known.insert(number, file) {
            let found = format!("file {number} twice, {} and {}", other.display(), file.display());
            return Err(DataError::because(Cause::Twice, first, expected, found));
        }
    }
    let missing: Vec<String> =
        (0..count).filter(|number| !known.contains_key(number)).map(|n| n.to_string()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown = missing.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    let more = if missing.len() > 5 { ", ..." } else { "" };
    Err(DataError::because(
        Cause::Incomplete,
        first,
        format!("{count} files of its kind, numbered from 0"),
        format!("{}, without number {shown}{more}", known.len()),
    ))
}

/// Returns a note on several files that are not numbered.
pub(super) fn several(files: &[PathBuf]) -> Option<String> {
    let [first, .., last] = files else { return None };
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    numbered(first).is_none().then(|| {
        format!(
            "{} files are one part, in the order of their names: {} to {}",
            files.len(),
            name(first),
            name(last)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_are_each_there_once() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for good in [
            &["train.parquet"][..],
            &["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
            &["train-0-of-1-0ab3.parquet"],
        ] {
            assert!(whole(&paths(good)).is_ok(), "{good:?}");
        }
        let error = |names: &[&str]| whole(&paths(names)).unwrap_err().to_string();
        let cut = error(&["train-00001-of-00003.parquet"]);
        assert!(
            cut.contains("3 files of its kind") && cut.contains("without number 0, 2"),
            "{cut}"
        );
        assert!(cut.contains("Fetch the others, too"), "{cut}");
        let twice =
            error(&["train-0-of-2-a.parquet", "train-0-of-2-b.parquet", "train-1-of-2-a.parquet"]);
        assert!(twice.contains("file 0 twice") && !twice.contains("Fetch"), "{twice}");
        let mixed =
            error(&["train-0-of-1.parquet", "train-0-of-2.parquet", "train-1-of-2.parquet"]);
        assert!(mixed.contains("train-0-of-2.parquet next to them"), "{mixed}");
        assert!(
            error(&["train-0-of-1.parquet", "train-extra.parquet"])
                .contains("train-extra.parquet next to")
        );
    }
}
