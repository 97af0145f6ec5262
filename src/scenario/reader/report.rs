//! The errors found so far, and the texts they point into.

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, Place};
use super::node::{Node, Span};
use super::readable::Fault;
use crate::scenario::ScenarioError;

/// So many errors are told.
pub(in crate::scenario) const SHOWN: usize = 50;

/// So many are remembered; what comes behind them is only counted.
const KEPT: usize = 1_000;

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
}

impl Report {
    /// Adds a source; spans name it by this index.
    pub fn add(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Parses a document. Its syntax errors are reported; what could be read is returned.
    pub fn parse(&mut self, source: Source) -> Node {
        let index = self.add(source);
        let text = self.sources[index].text.clone();
        let (document, errors) = DeTable::parse_recoverable(&text);
        for error in errors {
            let span = Span::new(index, error.span().unwrap_or(0..0));
            self.fault(Fault {
                span,
                message: format!("this is not TOML: {}", error.message()),
                label: "here".into(),
                help: None,
            });
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

    fn place(&self, span: Span) -> Option<Place> {
        let source = self.sources.get(span.source)?;
        Some(match span.start == span.end && span.start == 0 {
            true => Place::whole(&source.name),
            false => {
                let place = Place::new(&source.name, &source.text, span.start, span.end);
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
