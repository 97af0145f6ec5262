//! Virtual machine for pickles: a stack, marks in it, and a memo.

use std::collections::BTreeMap;
use std::io::Result;
use std::rc::Rc;

use super::{PickleValue, unknown, wrong};

/// Limit of how often containers are put into containers.
///
/// Each time may add a level of nesting, and values are dropped recursively, level by level, on the thread's stack.
const NESTED: usize = 1_000;

/// Machine that runs a pickle's program.
pub(super) struct PickleMachine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<PickleValue>,
    /// Heights of the stack at which marks were set.
    marks: Vec<usize>,
    memo: BTreeMap<u32, PickleValue>,
    /// Number of memoized values: the index of the next one if an opcode does not give it.
    remembered: u64,
    /// Number of times that a container was put into another.
    nested: usize,
}

impl<'a> PickleMachine<'a> {
    /// Creates a machine at the beginning of a program.
    pub fn new(bytes: &'a [u8]) -> PickleMachine<'a> {
        let (stack, marks, memo) = (Vec::new(), Vec::new(), BTreeMap::new());
        PickleMachine { bytes, at: 0, stack, marks, memo, remembered: 0, nested: 0 }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end =
            end.ok_or_else(|| wrong(format!("it breaks off behind {} bytes", self.bytes.len())))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Reads a little-endian number of `count` bytes.
    fn number(&mut self, count: usize) -> Result<u64> {
        let bytes = self.take(count)?.iter().rev();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = self.take(end.map_or(rest.len() + 1, |end| end + 1))?;
        std::str::from_utf8(&line[..line.len() - 1]).map_err(|_| wrong("a name that is no text"))
    }

    /// Reads an index into the memo, written in decimal.
    fn place(&mut self) -> Result<u64> {
        let line = self.line()?;
        line.parse().map_err(|_| wrong(format!("the place `{line}`")))
    }

    fn pop(&mut self) -> Result<PickleValue> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => self.stack.pop().ok_or_else(|| wrong("an empty stack")),
            false => Err(wrong(format!("an empty stack at byte {}", self.at))),
        }
    }

    fn since_mark(&mut self) -> Result<Vec<PickleValue>> {
        let mark = self.marks.pop().ok_or_else(|| wrong(format!("no mark at byte {}", self.at)))?;
        let values = self.stack.split_off(mark);
        self.nest(&values)?;
        Ok(values)
    }

    /// Counts the containers among values that are put into a container.
    fn nest(&mut self, values: &[PickleValue]) -> Result<()> {
        let is_container = |value: &PickleValue| {
            use PickleValue::{Dict, List, Made, Tuple};
            matches!(value, List(_) | Tuple(_) | Dict(_) | Made { .. })
        };
        self.nested += usize::from(values.iter().any(is_container));
        match self.nested <= NESTED {
            true => Ok(()),
            false => Err(wrong(format!("more than {NESTED} containers in others"))),
        }
    }

    fn some(&mut self, count: usize) -> Result<PickleValue> {
        let mut values = (0..count).map(|_| self.pop()).collect::<Result<Vec<_>>>()?;
        values.reverse();
        self.nest(&values)?;
        Ok(PickleValue::Tuple(values.into()))
    }

    fn push_bytes(&mut self, length: u64) -> Result<()> {
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        self.stack.push(PickleValue::Bytes(bytes.into()));
        Ok(())
    }

    /// Executes one opcode. Returns the result of the pickle after its last one.
    pub fn step(&mut self) -> Result<Option<PickleValue>> {
        let place = self.at;
        match self.take(1)?[0] {
            b'.' => return self.pop().map(Some),
            0x80 => {
                let protocol = self.take(1)?[0];
                if protocol > 5 {
                    return Err(unknown(format!(
                        "a pickle of protocol {protocol}; up to 5 is read"
                    )));
                }
            }
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.stack.push(PickleValue::Other),
            code @ (0x88 | 0x89) => self.stack.push(PickleValue::Bool(code == 0x88)),
            b'G' => {
                self.take(8)?;
                self.stack.push(PickleValue::Other);
            }
            b'J' => {
                let number = self.number(4)?;
                self.stack.push(PickleValue::Int(i64::from(number as u32 as i32)));
            }
            b'K' => {
                let number = self.number(1)?;
                self.stack.push(PickleValue::Int(number as i64));
            }
            b'M' => {
                let number = self.number(2)?;
                self.stack.push(PickleValue::Int(number as i64));
            }
            0x8a => {
                let count = self.number(1)? as usize;
                if count > 8 {
                    return Err(wrong(format!("a number of {count} bytes")));
                }
                let (number, unused) = (self.number(count)?, 64 - 8 * count as u32);
                let signed = if count == 0 { 0 } else { (number as i64) << unused >> unused };
                self.stack.push(PickleValue::Int(signed));
            }
            b'I' => {
                let line = self.line()?;
                let number = line.parse().map_err(|_| wrong(format!("the number `{line}`")))?;
                self.stack.push(PickleValue::Int(number));
            }
            b'S' => {
                let line = self.line()?.trim_matches(['\'', '"']);
                if line.contains('\\') {
                    return Err(wrong(format!("a text with escapes, `{line}`")));
                }
                self.stack.push(PickleValue::Bytes(line.as_bytes().into()));
            }
            // Frame lengths matter only to readers of streams.
            0x95 => {
                self.take(8)?;
            }
            0x94 => self.remember(self.remembered)?,
            b'U' | b'C' | 0x8c => {
                let length = self.number(1)?;
                self.push_bytes(length)?;
            }
            b'T' | b'B' | b'X' => {
                let length = self.number(4)?;
                self.push_bytes(length)?;
            }
            // Texts, bytes and byte arrays whose length has eight bytes.
            0x8d | 0x8e | 0x96 => {
                let length = self.number(8)?;
                self.push_bytes(length)?;
            }
            b']' => self.stack.push(PickleValue::List(Rc::default())),
            b'}' => self.stack.push(PickleValue::Dict(Rc::default())),
            b')' => self.stack.push(PickleValue::Tuple(Rc::default())),
            b'l' => {
                let values = self.since_mark()?;
                self.stack.push(PickleValue::List(values.into()));
            }
            b't' => {
                let values = self.since_mark()?;
                self.stack.push(PickleValue::Tuple(values.into()));
            }
            b'd' => {
                let values = self.since_mark()?;
                self.stack.push(PickleValue::Dict(pairs(values)?.into()));
            }
            code @ 0x85..=0x87 => {
                let tuple = self.some(usize::from(code - 0x84))?;
                self.stack.push(tuple);
            }
            b'a' => {
                let value = vec![self.pop()?];
                self.nest(&value)?;
                self.extend(value)?;
            }
            b'e' => {
                let values = self.since_mark()?;
                self.extend(values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                let pair = vec![key, value];
                self.nest(&pair)?;
                self.set(pair)?;
            }
            b'u' => {
                let values = self.since_mark()?;
                self.set(values)?;
            }
            b'c' => {
                let name = format!("{} {}", self.line()?, self.line()?);
                self.stack.push(PickleValue::Name(name.into()));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (PickleValue::Bytes(module), PickleValue::Bytes(name)) = (module, name) else {
                    return Err(wrong(format!("a name of no texts at byte {place}")));
                };
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let name = format!("{} {}", text(&module), text(&name));
                self.stack.push(PickleValue::Name(name.into()));
            }
            b'R' => {
                let (arguments, called) = (self.pop()?, self.pop()?);
                self.stack.push(made(&called, &arguments)?);
            }
            b'b' => {
                let (state, object) = (self.pop()?, self.pop()?);
                let PickleValue::Made { name, .. } = object else {
                    return Err(wrong(format!("a state of nothing at byte {place}")));
                };
                self.nest(std::slice::from_ref(&state))?;
                self.stack.push(PickleValue::Made { name, state: state.into() });
            }
            b'q' => {
                let number = self.number(1)?;
                self.remember(number)?;
            }
            b'r' => {
                let number = self.number(4)?;
                self.remember(number)?;
            }
            b'p' => {
                let number = self.place()?;
                self.remember(number)?;
            }
            code @ (b'h' | b'j' | b'g') => {
                let number = match code {
                    b'h' => self.number(1)?,
                    b'j' => self.number(4)?,
                    _ => self.place()?,
                };
                let value = self.memo.get(&(number as u32)).cloned();
                self.stack.push(value.ok_or_else(|| wrong(format!("no value {number} was kept")))?);
            }
            code => {
                return Err(unknown(format!(
                    "opcode {code:#04x} at byte {place}, which data sets do not use"
                )));
            }
        }
        Ok(None)
    }

    fn remember(&mut self, number: u64) -> Result<()> {
        let value = self.stack.last().cloned().ok_or_else(|| wrong("nothing to keep"))?;
        self.remembered += 1;
        // Values that are filled later are never looked up: lists and dictionaries of data sets are not shared. The
        // type of an array is known by its name.
        let is_type = |name: &str| name.starts_with(DTYPE);
        let is_filled = match &value {
            PickleValue::List(_) | PickleValue::Dict(_) => true,
            PickleValue::Made { name, .. } => !is_type(name),
            _ => false,
        };
        if !is_filled {
            self.memo.insert(number as u32, value);
        }
        Ok(())
    }

    fn extend(&mut self, values: Vec<PickleValue>) -> Result<()> {
        match self.stack.last_mut() {
            Some(PickleValue::List(list)) => Rc::make_mut(list).extend(values),
            _ => return Err(wrong(format!("values for no list at byte {}", self.at))),
        }
        Ok(())
    }

    fn set(&mut self, values: Vec<PickleValue>) -> Result<()> {
        let pairs = pairs(values)?;
        match self.stack.last_mut() {
            Some(PickleValue::Dict(dict)) => Rc::make_mut(dict).extend(pairs),
            _ => return Err(wrong(format!("keys for no dictionary at byte {}", self.at))),
        }
        Ok(())
    }
}

fn pairs(values: Vec<PickleValue>) -> Result<Vec<(PickleValue, PickleValue)>> {
    let mut values = values.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let Some(key) = values.next() {
        let value = values.next().ok_or_else(|| wrong("a key without a value"))?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Prefix of the name of an array's type.
const DTYPE: &str = "numpy dtype";

/// Returns the result of a call: an array, an array's type with its code, or bytes.
///
/// Python 3 writes bytes for Python 2 as a call, too.
fn made(called: &PickleValue, arguments: &PickleValue) -> Result<PickleValue> {
    let (PickleValue::Name(name), PickleValue::Tuple(arguments)) = (called, arguments) else {
        return Err(wrong("a call of no name"));
    };
    let state = Rc::new(PickleValue::Other);
    Ok(match (&**name, arguments.as_slice()) {
        (DTYPE, [PickleValue::Bytes(letters), ..]) => {
            let name = format!("numpy dtype {}", String::from_utf8_lossy(letters)).into();
            PickleValue::Made { name, state }
        }
        // Bytes written as Latin-1 text.
        ("_codecs encode", [PickleValue::Bytes(text), ..]) => {
            let text = String::from_utf8_lossy(text);
            PickleValue::Bytes(text.chars().map(|letter| u32::from(letter) as u8).collect())
        }
        // Protocol 5 makes an array in one call; the order is "C" if rows are contiguous.
        (_, [bytes @ PickleValue::Bytes(_), kind, shape, PickleValue::Bytes(order)])
            if name.ends_with(" _frombuffer") =>
        {
            let (version, by_column) = (PickleValue::Int(1), PickleValue::Bool(**order != *b"C"));
            let state = vec![version, shape.clone(), kind.clone(), by_column, bytes.clone()];
            PickleValue::Made {
                name: "numpy _reconstruct".into(),
                state: PickleValue::Tuple(state.into()).into(),
            }
        }
        _ => PickleValue::Made { name: Rc::clone(name), state },
    })
}
