//! Files that stand in for the expected ones: Git LFS pointers, web pages, tables of other programs.

use std::io::Read;
use std::path::Path;

use super::{Cause, DataError};
use crate::files::{self, FileKind};

/// Number of first bytes that identify such a file.
const HEAD: u64 = 256;

/// Returns the error for a file whose first bytes show another format. `None` if they show none, or cannot be read.
pub(super) fn foreign(path: &Path) -> Option<DataError> {
    let mut head = Vec::new();
    files::open(path, FileKind::Data).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    let (found, advice) = recognized(&head)?;
    let expected = "the data";
    Some(match advice {
        Some(advice) => DataError::advised(path, expected, found, advice),
        None => DataError::because(Cause::Damaged, path, expected, found),
    })
}

/// Returns the name of the format that begins with `head`, and advice if fetching again is not enough.
fn recognized(head: &[u8]) -> Option<(&'static str, Option<&'static str>)> {
    let text = head.trim_ascii_start().to_ascii_lowercase();
    let begins = |word: &str| text.starts_with(word.as_bytes());
    if head.is_empty() {
        return Some(("an empty file", None));
    }
    if begins("version https://git-lfs") {
        let advice = "Fetch the content: `git lfs pull` in its repository, or `fedcast fetch hf:datasets/OWNER/NAME`";
        return Some(("a pointer of Git LFS", Some(advice)));
    }
    if begins("/annex/objects/") || begins("../.git/annex") {
        let advice = "Fetch the content: `git annex get` in its repository";
        return Some(("a pointer of git-annex", Some(advice)));
    }
    if begins("<!doctype") || begins("<html") || begins("<head") {
        let advice = "Fetch it again from the address of the file itself (on the Hugging Face hub `resolve`, not `blob`); \
                      private and gated files need a token";
        return Some(("a web page", Some(advice)));
    }
    if head.starts_with(b"ARROW1") {
        let advice = "Write it as Parquet: pandas.read_feather(FILE).to_parquet(\"train.parquet\")";
        return Some(("an Arrow file of another form (Feather)", Some(advice)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_files_are_recognized_by_their_first_bytes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        let refusal = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            foreign(&path).map(|error| error.to_string())
        };
        let lfs = refusal(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
            .unwrap();
        assert!(
            lfs.contains("found a pointer of Git LFS") && lfs.contains("git lfs pull"),
            "{lfs}"
        );
        assert!(refusal(b"\n<!DOCTYPE html><html>").unwrap().contains("found a web page"));
        assert!(refusal(b"ARROW1\0\0rest").unwrap().contains("read_feather"));
        assert!(refusal(b"").unwrap().contains("an empty file"));
        assert_eq!(refusal(b"label,a\n0,1\n"), None);
        assert_eq!(refusal(b"PAR1"), None);
    }
}
