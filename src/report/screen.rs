//! Screen that texts are laid out for: a number of columns, or none for a file or a pipe.
//!
//! The program asks once for the width of its terminal (`COLUMNS` replaces it, for pagers); a library has none, and its
//! tables are as wide as they need. Tables follow the width by themselves ([`TextTable`](super::TextTable)); [`fitted`]
//! breaks the lines around them.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns of the screen; 0 stands for no bound.
static COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// Smallest width that texts are laid out for: narrower ones leave no room behind the first column.
const NARROWEST: usize = 40;

/// Lays out further texts for the terminal of stdout, or for the width in `COLUMNS` if it has one.
pub fn follow_terminal() {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let terminal = || {
        let out = std::io::stdout();
        let size = out.is_terminal().then(|| terminal_size::terminal_size_of(&out)).flatten();
        size.map(|(terminal_size::Width(columns), _)| usize::from(columns))
    };
    let columns = asked.or_else(terminal).filter(|columns: &usize| *columns > 0);
    COLUMNS.store(columns.map_or(0, |columns| columns.max(NARROWEST)), Ordering::Relaxed);
}

/// Returns the columns of the screen, if it has a bound.
pub fn columns() -> Option<usize> {
    Some(COLUMNS.load(Ordering::Relaxed)).filter(|columns| *columns > 0)
}

/// Breaks lines that are wider than the screen between words; rules of tables stay.
///
/// A line continues below its last column if two spaces divide it into columns, and otherwise below its own beginning.
/// A last column that starts in the right half of the screen continues two columns after the line's beginning instead.
pub fn fitted(text: &str) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| fitted_to(text, columns))
}

fn fitted_to(text: &str, columns: usize) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let whole = line.trim_end_matches('\n');
        if whole.chars().count() <= columns || whole.contains('─') {
            all.push_str(line);
            continue;
        }
        let indent = continuation(whole, columns);
        let (mut width, mut has_word) = (0, false);
        for (at, word) in whole.split(' ').enumerate() {
            let length = word.chars().count();
            let breaks = has_word && !word.is_empty() && width + 1 + length > columns;
            if breaks {
                all.truncate(all.trim_end_matches(' ').len());
                all.push('\n');
                all.push_str(&" ".repeat(indent));
                width = indent;
            } else if at > 0 {
                all.push(' ');
                width += 1;
            }
            has_word |= !word.is_empty();
            all.push_str(word);
            width += length;
        }
        all.push_str(&line[whole.len()..]);
    }
    all
}

/// Returns the column at which a broken line continues.
fn continuation(line: &str, columns: usize) -> usize {
    let own = line.len() - line.trim_start().len();
    let Some((before, _)) = line.trim_start().rsplit_once("  ") else {
        return own;
    };
    let at = own + before.chars().count() + 2;
    if 2 * at <= columns { at } else { own + 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_below_their_last_column_and_rules_stay() {
        let text = "directory   one two three four five\n  a note that is longer than the line\n";
        let lines = fitted_to(text, 24);
        let wanted = "directory   one two\n            three four\n            five\n  a note that is longer\n  than the line\n";
        assert_eq!(lines, wanted);
        let row = "up  head  weights and biases of it\n";
        assert_eq!(fitted_to(row, 24), "up  head  weights and\n          biases of it\n");
        let rule = "─────────────────────────────────\n";
        assert_eq!(fitted_to(rule, 24), rule);
    }

    #[test]
    fn words_and_spaces_stay() {
        let text = "a  b c\n\n    deep words that are broken in the middle of it\nunbreakable-word-of-a-path\n";
        let fitted = fitted_to(text, 20);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&fitted), words(text));
        assert!(fitted.starts_with("a  b c\n\n    deep words that"), "{fitted}");
        assert!(fitted.ends_with("\nunbreakable-word-of-a-path\n"), "{fitted}");
        assert_eq!(fitted_to(text, 200), text);
    }
}
