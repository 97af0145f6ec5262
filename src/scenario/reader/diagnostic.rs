//! Error of a scenario with its place, for users and for programs.
//!
//! ```text
//! error: unknown key `clinets` in [federation]
//!   --> quickstart.toml:12:1
//!    |
//! 12 | clinets = 10
//!    | ^^^^^^^ no such key
//!    = help: did you mean `clients`?
//! ```

use std::fmt::Write as _;

use serde::Serialize;

use crate::document::Document;

/// Error of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Document)]
pub struct Diagnostic {
    /// Problem, in one line.
    pub message: String,
    /// Place of the problem.
    pub place: Option<SourceSpan>,
    /// Label at the caret.
    pub label: String,
    /// Advice for the user.
    pub help: Option<String>,
}

/// Part of one line. Lines and columns (in characters) count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Document)]
pub struct SourceSpan {
    /// File as the user gave it, or `--set`.
    pub file: String,
    /// Line of the first character; 1 for the whole file.
    pub line: usize,
    /// Column of the first character.
    pub column: usize,
    /// Number of characters, at least 1; 0 for the whole file.
    pub length: usize,
    /// Text of the line.
    pub text: String,
}

impl SourceSpan {
    /// Returns the span of bytes `start..end` in `source`, cut at the end of the first line.
    pub(super) fn new(file: &str, source: &str, start: usize, end: usize) -> SourceSpan {
        let start = floor_boundary(source, start);
        let end = floor_boundary(source, end).max(start);
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let text = source[line_start..line_end].trim_end_matches('\r');
        let length = source[start..end.min(line_start + text.len()).max(start)].chars().count();
        SourceSpan {
            file: file.to_owned(),
            line: source[..start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            length: length.max(1),
            text: text.to_owned(),
        }
    }

    /// Returns the span without its text, unless the text looks like a line of a table.
    ///
    /// A scenario may name any file, and a reader of its errors may not be allowed to read that file.
    pub(super) fn if_tame(self) -> SourceSpan {
        if is_tame(&self.text) {
            self
        } else {
            SourceSpan { length: 0, text: String::new(), ..self }
        }
    }

    /// Returns the span of a whole file.
    pub(super) fn whole(file: &str) -> SourceSpan {
        SourceSpan { file: file.to_owned(), line: 1, column: 1, length: 0, text: String::new() }
    }
}

/// Splits the text of an error into its message and its advice, which is empty if there is none.
pub(in crate::scenario) fn message_and_help(text: &str) -> (&str, &str) {
    text.rsplit_once("\n  help: ").unwrap_or((text, ""))
}

/// Returns true if a text of a file may be shown: a few words and numbers between commas.
pub(in crate::scenario) fn is_tame(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " \t,._+-#".contains(c);
    text.len() <= WIDTH && text.chars().all(plain)
}

/// Largest number of characters of a line that are shown.
const WIDTH: usize = 200;

/// Returns the part of a line around the column (from 1) that is shown, and the column in it.
fn window(text: &str, column: usize) -> (String, usize) {
    let length = text.chars().count();
    if length <= WIDTH {
        return (harmless(text), column);
    }
    let first = (column - 1).saturating_sub(WIDTH / 2).min(length - WIDTH);
    let part: String = text.chars().skip(first).take(WIDTH).collect();
    (harmless(&part), column - first)
}

fn lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// Removes characters that would move the cursor of a terminal.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
}

fn floor_boundary(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

impl Diagnostic {
    /// Formats the error; `color` adds ANSI colors and changes nothing else.
    pub fn render(&self, color: bool) -> String {
        self.headed("error", "1;31", color)
    }

    /// Formats the text like [`render`](Self::render), as a note instead of an error.
    pub fn render_note(&self, color: bool) -> String {
        self.headed("note", "1;36", color)
    }

    fn headed(&self, word: &str, tint: &str, color: bool) -> String {
        let paint = |code: &str, text: &str| match color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        };
        let (blue, bold) = ("1;34", "1");
        let mut out = format!(
            "{}{}\n",
            paint(tint, word),
            paint(bold, &format!(": {}", lines(&self.message)))
        );
        let mut margin = 0;
        // Writing to a string cannot fail.
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            margin = number.len();
            let pad = " ".repeat(margin);
            let arrow = paint(blue, "-->");
            let file = harmless(&place.file);
            let _ = writeln!(out, "{pad}{arrow} {file}:{}:{}", place.line, place.column);
            if place.length > 0 {
                let bar = paint(blue, "|");
                // Tabs stay tabs under tabs, so that the caret lines up in every terminal.
                let (text, column) = window(&place.text, place.column);
                let before = text.chars().take(column - 1);
                let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                let room = text.chars().count().saturating_sub(column - 1).max(1);
                let carets =
                    format!("{} {}", "^".repeat(place.length.min(room)), harmless(&self.label));
                let _ = writeln!(out, "{pad} {bar}");
                let _ = writeln!(out, "{} {bar} {}", paint(blue, &number), text);
                let _ = writeln!(out, "{pad} {bar} {indent}{}", paint(tint, carets.trim_end()));
            }
        }
        if let Some(help) = &self.help {
            let pad = " ".repeat(margin);
            let _ = writeln!(out, "{pad} {} {}", paint(blue, "= help:"), lines(help));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_stay_on_their_line() {
        let source = "a = 1\nname = \"Zürich\"\nb = [\n 1,\n]\n";
        let start = source.find("\"Z").unwrap();
        let place = SourceSpan::new("x.toml", source, start, start + "\"Zürich\"".len());
        assert_eq!((place.line, place.column, place.length), (2, 8, 8));
        let start = source.find('[').unwrap();
        let place = SourceSpan::new("x.toml", source, start, source.len());
        assert_eq!((place.line, place.column, place.length, &*place.text), (3, 5, 1, "b = ["));
        let place = SourceSpan::new("x.toml", source, source.len() + 9, source.len() + 10);
        assert_eq!((place.line, place.length), (6, 1));
    }

    #[test]
    fn color_changes_nothing_but_color() {
        let diagnostic = Diagnostic {
            message: "wrong".into(),
            place: Some(SourceSpan::new("x.toml", "\ta = 1", 1, 2)),
            label: "here".into(),
            help: Some("right".into()),
        };
        let mut colored = diagnostic.render(true);
        for code in ["\u{1b}[1;31m", "\u{1b}[1;34m", "\u{1b}[1m", "\u{1b}[0m"] {
            colored = colored.replace(code, "");
        }
        assert_eq!(colored, diagnostic.render(false));
        assert!(colored.contains(" | \t^ here\n"), "{colored}");
    }
}
