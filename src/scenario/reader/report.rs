//! The errors found so far, and the texts they point into.

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, Place};
use super::node::{Node, Span};
use super::readable::Fault;
use crate::scenario::ScenarioError;

/// One text that was read.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Source {
    /// The file as it was named, or `--set`.
    pub name: String,
    pub text: String,
}

impl Source {
    pub fn new(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned() }
    }
}

/// Sources and errors of one reading.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct Report {
    sources: Vec<Source>,
    found: Vec<(Span, Diagnostic)>,
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
        let place = self.place(fault.span);
        let Fault { span, message, label, help } = fault;
        self.found.push((span, Diagnostic { message, place, label, help }));
    }

    fn place(&self, span: Span) -> Option<Place> {
        let source = self.sources.get(span.source)?;
        Some(match span.start == span.end && span.start == 0 {
            true => Place::whole(&source.name),
            false => Place::new(&source.name, &source.text, span.start, span.end),
        })
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Everything found, in the order of places.
    pub fn into_error(mut self) -> ScenarioError {
        self.found.sort_by_key(|(span, _)| *span);
        ScenarioError::Invalid(self.found.into_iter().map(|(_, found)| found).collect())
    }
}
