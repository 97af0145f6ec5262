//! Text files from any editor or spreadsheet.
//!
//! Excel and some editors of Windows write a byte order mark in front, and a line ends with a line feed, a carriage
//! return or both. Readers of lines and cells get the text without the mark, each line with a line feed.

use std::io::{self, BufRead, Error, ErrorKind};
use std::path::Path;

use super::{FileKind, read};

/// Byte order mark of UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the text of a file, without a byte order mark and with line feeds only.
///
/// # Errors
/// Fails as [`open`](super::open), and for bytes that are not UTF-8.
pub fn read_text(path: &Path, kind: FileKind) -> io::Result<String> {
    text_of(&read(path, kind)?)
}

/// Returns bytes as text, without a byte order mark and with line feeds only.
///
/// # Errors
/// Fails for bytes that are not UTF-8.
pub fn text_of(bytes: &[u8]) -> io::Result<String> {
    let other = |what: String| Err(Error::new(ErrorKind::InvalidData, what));
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        return other("it is UTF-16 text, expected UTF-8".to_owned());
    }
    match std::str::from_utf8(bytes.strip_prefix(MARK).unwrap_or(bytes)) {
        Ok(text) if text.contains('\r') => Ok(text.replace("\r\n", "\n").replace('\r', "\n")),
        Ok(text) => Ok(text.to_owned()),
        Err(error) => other(format!("it is not UTF-8 text: {error}")),
    }
}

/// Skips a byte order mark at the start of a text that is read in pieces.
///
/// # Errors
/// Fails with errors of the reader.
pub fn skip_mark(reader: &mut impl BufRead) -> io::Result<()> {
    if reader.fill_buf()?.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_lines_end_in_one_way() {
        let text = |bytes: &[u8]| text_of(bytes).unwrap();
        assert_eq!(text(b"\xEF\xBB\xBFa,b\r\n1,2\r\n"), "a,b\n1,2\n");
        assert_eq!(text(b"a\rb\r\rc"), "a\nb\n\nc");
        assert_eq!(text(b"a\n\r\nb\xEF\xBB\xBF"), "a\n\nb\u{feff}", "a mark in the text stays");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn a_mark_is_passed_over_once_and_nothing_else_is() {
        for (bytes, rest) in [
            (b"\xEF\xBB\xBFa".as_slice(), b"a".as_slice()),
            (b"\xEF\xBB\xBF\xEF\xBB\xBF", b"\xEF\xBB\xBF"),
            (b"\xEF\xBBa", b"\xEF\xBBa"),
            (b"", b""),
        ] {
            let mut reader = bytes;
            skip_mark(&mut reader).unwrap();
            assert_eq!(reader, rest);
        }
    }

    #[test]
    fn other_encodings_are_named() {
        let error = |bytes: &[u8]| text_of(bytes).unwrap_err();
        assert_eq!(error(b"\xFF\xFEa\0").to_string(), "it is UTF-16 text, expected UTF-8");
        assert!(error(b"caf\xE9").to_string().contains("index 3"));
        assert_eq!(error(b"\xFE\xFF\0a").kind(), ErrorKind::InvalidData);
    }
}
