//! Errors found so far, and the texts that they point to.

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::node::{Node, TextSpan};
use super::param::KeyDoc;
use super::readable::ValueFault;
use super::slips::{meant, other_format};
use super::suggest::alternatives;
use crate::scenario::ScenarioError;

/// Largest number of errors shown.
pub(in crate::scenario) const SHOWN: usize = 50;

/// Largest number of places of a key for which help is given.
const MOST_PLACES: usize = 3;

/// Largest number of errors kept; further ones are only counted.
const KEPT: usize = 1_000;

/// Name of overrides in errors.
const OVERRIDE: &str = "--set";

/// Text that was read.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct SourceText {
    /// File as the user gave it, or `--set`.
    pub name: String,
    pub text: String,
    /// Marks a file of any kind, whose lines are only shown if they look like numbers.
    foreign: bool,
}

impl SourceText {
    pub fn new(name: &str, text: &str) -> SourceText {
        SourceText { name: name.to_owned(), text: text.to_owned(), foreign: false }
    }

    /// Returns the source of an override from the command line.
    pub fn override_of(text: &str) -> SourceText {
        SourceText::new(OVERRIDE, text)
    }

    /// Returns the source of a file that a key names.
    pub fn table(name: &str, text: &str) -> SourceText {
        SourceText { foreign: true, ..SourceText::new(name, text) }
    }
}

/// Sources and errors of one reading.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct ReadingReport {
    sources: Vec<SourceText>,
    found: Vec<ValueFault>,
    /// Number of errors that are not kept.
    more: usize,
    /// Errors of keys that are unknown at their place.
    strays: Vec<(usize, String)>,
}

impl ReadingReport {
    /// Adds a source and returns its index, which spans use.
    pub fn add(&mut self, source: SourceText) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Parses a document and returns as much as could be read.
    ///
    /// Reports its first syntax error, and typing errors in later lines.
    pub fn parse(&mut self, source: SourceText) -> Node {
        let index = self.add(source);
        let text = self.sources[index].text.clone();
        let (document, errors) = DeTable::parse_recoverable(&text);
        let other = match errors.is_empty() {
            true => None,
            false => other_format(&self.sources[index].name, &text),
        };
        if let Some(other) = other {
            self.fault(ValueFault {
                span: TextSpan::new(index, 0..0),
                message: format!("this is {other}, and files of fedcast are TOML"),
                label: String::new(),
                help: Some(
                    "write `[table]` and `key = value` below it; `fedcast new` writes a scenario"
                        .into(),
                ),
            });
            return Node::document(index, document.get_ref());
        }
        let mut places: Vec<(usize, ValueFault)> = Vec::new();
        for error in errors {
            let range = error.span().unwrap_or(0..0);
            let fault = ValueFault {
                help: advice(&text, range.start, error.message()),
                span: TextSpan::new(index, range.clone()),
                message: format!("this is not TOML: {}", error.message()),
                label: "here".into(),
            };
            places.push((range.start, fault));
        }
        places.sort_by_key(|(start, _)| *start);
        // After the first syntax error the parser may be in the middle of something, so of the later ones only known
        // typing errors are reported, one per line.
        let mut last_line = None;
        for (start, fault) in places {
            let line = text.get(..start).unwrap_or(&text).matches('\n').count();
            let is_slip =
                last_line.is_some_and(|last_line| last_line != line) && fault.help.is_some();
            if last_line.is_none() || is_slip {
                last_line = Some(line);
                self.fault(fault);
            }
        }
        Node::document(index, document.get_ref())
    }

    /// Adds an error.
    pub fn fault(&mut self, fault: ValueFault) {
        if self.found.len() < KEPT {
            self.found.push(fault.shortened());
        } else {
            self.more += 1;
        }
    }

    /// Adds the error of a key that is unknown at its place.
    pub fn stray(&mut self, fault: ValueFault, key: &str) {
        self.strays.push((self.found.len(), key.to_owned()));
        self.fault(fault);
    }

    /// Adds help on the right place of unknown keys, once all keys are known.
    pub fn place_strays(&mut self, known: &[KeyDoc]) {
        for (index, key) in std::mem::take(&mut self.strays) {
            let last = |doc: &&KeyDoc| doc.key.rsplit('.').next() == Some(&key);
            let mut paths: Vec<&str> = known.iter().filter(last).map(|doc| &*doc.key).collect();
            paths.dedup();
            if let (1..=MOST_PLACES, Some(fault)) = (paths.len(), self.found.get_mut(index)) {
                fault.help = Some(format!("did you mean {}?", alternatives(paths)));
            }
        }
    }

    /// Returns true if a place is in an override.
    pub fn is_override(&self, span: TextSpan) -> bool {
        self.sources.get(span.source).is_some_and(|source| source.name == OVERRIDE)
    }

    fn place(&self, span: TextSpan) -> Option<SourceSpan> {
        let source = self.sources.get(span.source)?;
        Some(match span.start == span.end && span.start == 0 {
            true => SourceSpan::whole(&source.name),
            false => {
                let place = SourceSpan::new(&source.name, &source.text, span.start, span.end);
                if source.foreign { place.if_tame() } else { place }
            }
        })
    }

    /// Returns true if there are no errors.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the first [`SHOWN`] errors in the order of their places, and the number of all.
    pub fn into_error(self) -> ScenarioError {
        ScenarioError::Invalid(self.into_diagnostics())
    }

    /// Returns the reports like [`into_error`](Self::into_error), for reports that may be no errors.
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|fault| fault.span);
        let all = found.len() + self.more;
        found.truncate(SHOWN);
        let place = |fault: ValueFault| {
            let place = self.place(fault.span);
            Diagnostic { message: fault.message, place, label: fault.label, help: fault.help }
        };
        let mut diagnostics: Vec<Diagnostic> = found.into_iter().map(place).collect();
        if all > diagnostics.len() {
            let left = all - diagnostics.len();
            let message = format!("{left} more errors are not shown");
            let help = Some("correct these first".to_owned());
            diagnostics.push(Diagnostic { message, place: None, label: String::new(), help });
        }
        diagnostics
    }
}

/// Returns the correction of a syntax error, for known typing errors.
fn advice(text: &str, place: usize, message: &str) -> Option<String> {
    let rest = text.get(place.min(text.len())..)?;
    let token = rest.split([',', '}', ']', '#', '\n', '\r', ' ']).next().unwrap_or_default();
    let value = meant(token).or_else(|| meant(value_around(text, place)?));
    let quoted = || {
        let unquoted = message.starts_with("string values must be quoted") && !token.is_empty();
        unquoted.then(|| format!("\"{token}\""))
    };
    value.or_else(quoted).map(|value| format!("write `{value}`"))
}

/// Returns the text after the `=` in the line of a place, without its comment.
fn value_around(text: &str, place: usize) -> Option<&str> {
    let place = place.min(text.len());
    let start = text.get(..place)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?;
    let (_, value) = line.split_once('=')?;
    Some(value.split('#').next().unwrap_or_default())
}
