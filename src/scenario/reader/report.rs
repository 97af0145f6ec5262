//! The errors found so far, and the texts they point into.

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::node::{Node, Span};
use super::param::KeyDoc;
use super::readable::Fault;
use super::slips::{meant, other_format};
use super::suggest::alternatives;
use crate::scenario::ScenarioError;

/// So many errors are told.
pub(in crate::scenario) const SHOWN: usize = 50;

/// A key that has more places than this is not advised about.
const MOST_PLACES: usize = 3;

/// So many are remembered; what comes behind them is only counted.
const KEPT: usize = 1_000;

/// What overrides are called in errors.
const OVERRIDE: &str = "--set";

/// One text that was read.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Source {
    /// The file as it was named, or `--set`.
    pub name: String,
    pub text: String,
    /// Whether any file may stand here, so that its lines are shown only where they look like numbers.
    foreign: bool,
}

impl Source {
    pub fn new(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned(), foreign: false }
    }

    /// An override from the command line.
    pub fn override_of(text: &str) -> Source {
        Source::new(OVERRIDE, text)
    }

    /// A file that a key names.
    pub fn table(name: &str, text: &str) -> Source {
        Source { foreign: true, ..Source::new(name, text) }
    }
}

/// Sources and errors of one reading.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct Report {
    sources: Vec<Source>,
    found: Vec<Fault>,
    /// How many more there are than are kept.
    more: usize,
    /// Which of them are of a key that has no place where it stands.
    strays: Vec<(usize, String)>,
}

impl Report {
    /// Adds a source; spans name it by this index.
    pub fn add(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Parses a document. Its first syntax error is reported, and slips on later lines; what could be read is
    /// returned.
    pub fn parse(&mut self, source: Source) -> Node {
        let index = self.add(source);
        let text = self.sources[index].text.clone();
        let (document, errors) = DeTable::parse_recoverable(&text);
        let other = match errors.is_empty() {
            true => None,
            false => other_format(&self.sources[index].name, &text),
        };
        if let Some(other) = other {
            self.fault(Fault {
                span: Span::new(index, 0..0),
                message: format!("this is {other}, and files of fedcast are TOML"),
                label: String::new(),
                help: Some(
                    "write `[table]` and `key = value` below it; `fedcast new` writes a scenario"
                        .into(),
                ),
            });
            return Node::document(index, document.get_ref());
        }
        let mut places: Vec<(usize, Fault)> = Vec::new();
        for error in errors {
            let range = error.span().unwrap_or(0..0);
            let fault = Fault {
                help: advice(&text, range.start, error.message()),
                span: Span::new(index, range.clone()),
                message: format!("this is not TOML: {}", error.message()),
                label: "here".into(),
            };
            places.push((range.start, fault));
        }
        places.sort_by_key(|(start, _)| *start);
        // What comes behind the first one is read from the middle of something; only slips that are known count, a line
        // each.
        let mut told = None;
        for (start, fault) in places {
            let line = text.get(..start).unwrap_or(&text).matches('\n').count();
            let is_slip = told.is_some_and(|told| told != line) && fault.help.is_some();
            if told.is_none() || is_slip {
                told = Some(line);
                self.fault(fault);
            }
        }
        Node::document(index, document.get_ref())
    }

    /// One more error.
    pub fn fault(&mut self, fault: Fault) {
        if self.found.len() < KEPT {
            self.found.push(fault.shortened());
        } else {
            self.more += 1;
        }
    }

    /// One more error: a key that is unknown where it stands.
    pub fn stray(&mut self, fault: Fault, key: &str) {
        self.strays.push((self.found.len(), key.to_owned()));
        self.fault(fault);
    }

    /// Advises where unknown keys belong, once all keys are known by their paths.
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

    /// Whether a place is in an override.
    pub fn is_override(&self, span: Span) -> bool {
        self.sources.get(span.source).is_some_and(|source| source.name == OVERRIDE)
    }

    fn place(&self, span: Span) -> Option<SourceSpan> {
        let source = self.sources.get(span.source)?;
        Some(match span.start == span.end && span.start == 0 {
            true => SourceSpan::whole(&source.name),
            false => {
                let place = SourceSpan::new(&source.name, &source.text, span.start, span.end);
                if source.foreign { place.if_tame() } else { place }
            }
        })
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// What was found, in the order of places: the first [`SHOWN`], and how many there are.
    pub fn into_error(self) -> ScenarioError {
        ScenarioError::Invalid(self.into_diagnostics())
    }

    /// As [`into_error`](Self::into_error), where nothing of it need be an error.
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|fault| fault.span);
        let all = found.len() + self.more;
        found.truncate(SHOWN);
        let place = |fault: Fault| {
            let place = self.place(fault.span);
            Diagnostic { message: fault.message, place, label: fault.label, help: fault.help }
        };
        let mut told: Vec<Diagnostic> = found.into_iter().map(place).collect();
        if all > told.len() {
            let left = all - told.len();
            let message = format!("there are {left} more errors of this kind or another");
            let help = Some("mend these first".to_owned());
            told.push(Diagnostic { message, place: None, label: String::new(), help });
        }
        told
    }
}

/// What to write at the place of a syntax error, where that is a slip that is known.
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

/// What stands behind the `=` of the line of a place, without its comment.
fn value_around(text: &str, place: usize) -> Option<&str> {
    let place = place.min(text.len());
    let start = text.get(..place)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.lines().next()?;
    let (_, value) = line.split_once('=')?;
    Some(value.split('#').next().unwrap_or_default())
}
