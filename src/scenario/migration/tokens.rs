//! Keys and values of a TOML document in the order of its text, each with its path.

use std::collections::BTreeMap;
use std::ops::Range;

use toml_parser::parser::{Event, EventKind, parse_document};

/// Part of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathPart {
    /// Key of a table.
    Key(String),
    /// Place in a list, from 0.
    Item(usize),
}

/// Content of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenContent {
    /// Key, the last of its path, without quotes.
    Key,
    /// String, without quotes.
    Text(String),
    /// Number, boolean or date, as it is written.
    Plain(String),
}

/// Key or scalar value as it stands in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentToken {
    /// Path of the key, or of the key or item that has the value.
    pub path: Vec<PathPart>,
    /// Bytes of the text, with quotes.
    pub span: Range<usize>,
    /// Key or value.
    pub content: TokenContent,
}

/// Returns the tokens of a valid document.
pub(super) fn document_tokens(text: &str) -> Vec<DocumentToken> {
    let source = toml_parser::Source::new(text);
    let (lexed, mut events) = (source.lex().into_vec(), Vec::<Event>::new());
    parse_document(&lexed, &mut events, &mut ());
    let mut scan = Scan::new(source);
    events.iter().for_each(|event| scan.step(event));
    scan.tokens
}

/// Table or list around the current place.
struct OpenTable {
    path: Vec<PathPart>,
    /// Keys read of the current dotted key.
    keys: Vec<PathPart>,
    /// Place of the next item; `None` in a table.
    item: Option<usize>,
}

impl OpenTable {
    fn new(path: Vec<PathPart>, item: Option<usize>) -> OpenTable {
        OpenTable { path, keys: Vec::new(), item }
    }

    /// Returns the path of the value that stands here.
    fn value_path(&mut self) -> Vec<PathPart> {
        let mut path = self.path.clone();
        match &mut self.item {
            None => path.append(&mut self.keys),
            Some(item) => {
                path.push(PathPart::Item(*item));
                *item += 1;
            }
        }
        path
    }
}

struct Scan<'t> {
    source: toml_parser::Source<'t>,
    tokens: Vec<DocumentToken>,
    levels: Vec<OpenTable>,
    /// True between the brackets of a header.
    in_header: bool,
    /// Tables of every list of tables so far.
    lists: BTreeMap<Vec<PathPart>, usize>,
}

impl<'t> Scan<'t> {
    fn new(source: toml_parser::Source<'t>) -> Scan<'t> {
        let levels = vec![OpenTable::new(Vec::new(), None)];
        Scan { source, tokens: Vec::new(), levels, in_header: false, lists: BTreeMap::new() }
    }

    fn step(&mut self, event: &Event) {
        match event.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                self.levels = vec![OpenTable::new(Vec::new(), None)];
                self.in_header = true;
            }
            EventKind::StdTableClose => self.close_header(false),
            EventKind::ArrayTableClose => self.close_header(true),
            EventKind::SimpleKey => self.key(event),
            EventKind::Scalar => self.scalar(event),
            EventKind::InlineTableOpen => self.open(None),
            EventKind::ArrayOpen => self.open(Some(0)),
            EventKind::InlineTableClose | EventKind::ArrayClose if self.levels.len() > 1 => {
                self.levels.pop();
            }
            _ => {}
        }
    }

    fn key(&mut self, event: &Event) {
        let Some(raw) = self.source.get(event) else { return };
        let mut name = String::new();
        raw.decode_key(&mut name, &mut ());
        let Some(level) = self.levels.last_mut() else { return };
        if self.in_header {
            // A header goes on from the last table of a list.
            if let Some(tables) = self.lists.get(&level.keys) {
                level.keys.push(PathPart::Item(tables.saturating_sub(1)));
            }
        }
        level.keys.push(PathPart::Key(name));
        let path = [&level.path[..], &level.keys].concat();
        self.push(path, event, TokenContent::Key);
    }

    fn scalar(&mut self, event: &Event) {
        let (Some(raw), Some(level)) = (self.source.get(event), self.levels.last_mut()) else {
            return;
        };
        let path = level.value_path();
        let content = match event.encoding() {
            None => TokenContent::Plain(raw.as_str().to_owned()),
            Some(_) => {
                let mut text = String::new();
                let _ = raw.decode_scalar(&mut text, &mut ());
                TokenContent::Text(text)
            }
        };
        self.push(path, event, content);
    }

    fn push(&mut self, path: Vec<PathPart>, event: &Event, content: TokenContent) {
        let span = event.span().start()..event.span().end();
        self.tokens.push(DocumentToken { path, span, content });
    }

    fn open(&mut self, item: Option<usize>) {
        let path = self.levels.last_mut().map(OpenTable::value_path);
        self.levels.push(OpenTable::new(path.unwrap_or_default(), item));
    }

    fn close_header(&mut self, is_list: bool) {
        self.in_header = false;
        let mut path = self.levels.pop().map(|level| level.keys).unwrap_or_default();
        if is_list {
            let tables = self.lists.entry(path.clone()).or_default();
            *tables += 1;
            path.push(PathPart::Item(*tables - 1));
        }
        self.levels = vec![OpenTable::new(path, None)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths with the text of each token.
    fn paths(text: &str) -> Vec<String> {
        let shown = |part: &PathPart| match part {
            PathPart::Key(key) => key.clone(),
            PathPart::Item(place) => place.to_string(),
        };
        let line = |token: &DocumentToken| {
            let path: Vec<String> = token.path.iter().map(shown).collect();
            format!("{} {}", path.join("/"), &text[token.span.clone()])
        };
        document_tokens(text).iter().map(line).collect()
    }

    #[test]
    fn every_form_of_a_key_has_its_path() {
        let text = "a.\"b.c\" = 1\n[d]\ne = { f.g = 'x', h = [1, { i = 2 }] }\n[d . j]\nk = true\n";
        let wanted = [
            "a a",
            "a/b.c \"b.c\"",
            "a/b.c 1",
            "d d",
            "d/e e",
            "d/e/f f",
            "d/e/f/g g",
            "d/e/f/g 'x'",
            "d/e/h h",
            "d/e/h/0 1",
            "d/e/h/1/i i",
            "d/e/h/1/i 2",
            "d d",
            "d/j j",
            "d/j/k k",
            "d/j/k true",
        ];
        assert_eq!(paths(text), wanted);
    }

    #[test]
    fn tables_of_a_list_are_counted() {
        let text = "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2\n";
        let wanted =
            ["a a", "a/0/b b", "a/0/b 1", "a a", "a a", "a/1/c c", "a/1/c/d d", "a/1/c/d 2"];
        assert_eq!(paths(text), wanted);
    }

    #[test]
    fn strings_are_read_and_a_mark_in_front_is_not() {
        let text = "\u{feff}a = \"\"\"\nx\\u0041\"\"\"";
        let tokens = document_tokens(text);
        assert_eq!(&text[tokens[0].span.clone()], "a");
        assert_eq!(tokens[1].content, TokenContent::Text("xA".to_owned()));
    }
}
