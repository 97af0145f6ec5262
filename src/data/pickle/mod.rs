//! Python's pickles, as far as data sets are kept in them: lists, dictionaries, texts, numbers and NumPy's arrays.
//!
//! A pickle is a program for a machine with a stack. This reader only builds values: anything that a pickle asks to
//! import or to call is kept as its name, so that an untrusted file cannot run code. Memoized values are shared, not
//! copied. The opcodes of protocols 0 to 5 that such files use are supported; any other is an error.

mod machine;
#[cfg(test)]
pub(super) mod tests;

use std::io::{Error, ErrorKind, Result};
use std::rc::Rc;

use machine::PickleMachine;

/// Value built by a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PickleValue {
    /// `None` or a number with a fraction, which data do not consist of.
    Other,
    Bool(bool),
    Int(i64),
    /// Text or bytes, which files of Python 2 do not distinguish.
    Bytes(Rc<[u8]>),
    List(Rc<Vec<PickleValue>>),
    Tuple(Rc<Vec<PickleValue>>),
    Dict(Rc<Vec<(PickleValue, PickleValue)>>),
    /// Imported name, as `module name`.
    Name(Rc<str>),
    /// Result of calling a name with arguments, and the state set afterwards.
    Made {
        name: Rc<str>,
        state: Rc<PickleValue>,
    },
}

impl PickleValue {
    /// Returns the value of a key, if this is a dictionary that has it.
    pub fn get(&self, key: &str) -> Option<&PickleValue> {
        let PickleValue::Dict(pairs) = self else { return None };
        let is_key = |(found, _): &&(PickleValue, PickleValue)| matches!(found, PickleValue::Bytes(text) if **text == *key.as_bytes());
        pairs.iter().rev().find(is_key).map(|(_, value)| value)
    }

    /// Returns the integers of a list, if this is one.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let PickleValue::List(list) = self else { return None };
        let int =
            |value: &PickleValue| if let PickleValue::Int(int) = value { Some(*int) } else { None };
        list.iter().map(int).collect()
    }

    /// Returns the texts of a list, if this is one.
    pub fn texts(&self) -> Option<Vec<String>> {
        let PickleValue::List(list) = self else { return None };
        let text = |value: &PickleValue| match value {
            PickleValue::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        list.iter().map(text).collect()
    }

    /// Returns shape and bytes of an array of unsigned bytes (`u1`) in row order, if this is one.
    pub fn byte_array(&self) -> Option<(Vec<usize>, &[u8])> {
        // State of an array: version, shape, type, whether in Fortran order, bytes.
        let PickleValue::Made { name, state } = self else { return None };
        let PickleValue::Tuple(state) = state.as_ref() else { return None };
        let [
            _,
            PickleValue::Tuple(shape),
            PickleValue::Made { name: kind, .. },
            by_column,
            PickleValue::Bytes(bytes),
        ] = state.as_slice()
        else {
            return None;
        };
        let is_array = name.ends_with(" _reconstruct") && &**kind == "numpy dtype u1";
        let by_row = matches!(by_column, PickleValue::Bool(false) | PickleValue::Int(0));
        let extent = |value: &PickleValue| match value {
            PickleValue::Int(extent) => usize::try_from(*extent).ok(),
            _ => None,
        };
        let shape: Vec<usize> = shape.iter().map(extent).collect::<Option<_>>()?;
        (is_array && by_row).then_some((shape, bytes))
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, what.into())
}

/// Returns the error for an unknown opcode or protocol; the file itself may be intact.
fn unknown(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

/// Reads the value of a pickle.
///
/// # Errors
/// Returns an error if bytes end too early, or if the program does not fit its stack; [`ErrorKind::Unsupported`] for an
/// unknown opcode.
pub(super) fn read(bytes: &[u8]) -> Result<PickleValue> {
    let mut machine = PickleMachine::new(bytes);
    loop {
        if let Some(value) = machine.step()? {
            return Ok(value);
        }
    }
}
