//! Python's pickles, as far as data sets are kept in them: lists, dictionaries, texts, numbers and NumPy's arrays.
//!
//! A pickle is a program for a machine with a stack. This one only builds values: anything that a pickle asks to
//! import or to call stays the name of it, so reading one from a stranger runs nothing. Only what it holds is copied,
//! and a value that is remembered is shared. Opcodes of protocols 0 to 5 that such files use are known; any other is
//! an error.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::rc::Rc;

/// Value of a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PickleValue {
    /// `None`, a number with a fraction: nothing that data are made of.
    Other,
    Bool(bool),
    Int(i64),
    /// Text or bytes, which files of Python 2 do not distinguish.
    Bytes(Rc<[u8]>),
    List(Rc<Vec<PickleValue>>),
    Tuple(Rc<Vec<PickleValue>>),
    Dict(Rc<Vec<(PickleValue, PickleValue)>>),
    /// `module name`.
    Name(Rc<str>),
    /// Result of calling a name with arguments, and the state that it was given.
    Made {
        name: Rc<str>,
        state: Rc<PickleValue>,
    },
}

impl PickleValue {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&PickleValue> {
        let PickleValue::Dict(pairs) = self else { return None };
        let is_key = |(found, _): &&(PickleValue, PickleValue)| matches!(found, PickleValue::Bytes(text) if **text == *key.as_bytes());
        pairs.iter().rev().find(is_key).map(|(_, value)| value)
    }

    /// Whole numbers of a list.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let PickleValue::List(list) = self else { return None };
        let int =
            |value: &PickleValue| if let PickleValue::Int(int) = value { Some(*int) } else { None };
        list.iter().map(int).collect()
    }

    /// Texts of a list.
    pub fn texts(&self) -> Option<Vec<String>> {
        let PickleValue::List(list) = self else { return None };
        let text = |value: &PickleValue| match value {
            PickleValue::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        list.iter().map(text).collect()
    }

    /// Shape and bytes of an array of bytes (`u1`) in rows.
    pub fn byte_array(&self) -> Option<(Vec<usize>, &[u8])> {
        // The state of an array: version, shape, type, whether by columns, bytes.
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

/// Returns the error for an opcode or a protocol that is not known, in a file that may be whole.
fn unknown(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

/// Reads the value of a pickle.
///
/// # Errors
/// Bytes that end too early, a program that does not fit its stack; [`ErrorKind::Unsupported`] for an opcode that is
/// not known.
pub(super) fn read(bytes: &[u8]) -> Result<PickleValue> {
    let (stack, marks, memo) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut machine = PickleMachine { bytes, at: 0, stack, marks, memo, remembered: 0, nested: 0 };
    loop {
        if let Some(value) = machine.step()? {
            return Ok(value);
        }
    }
}

/// Limit of how often a container is put into another. Each may be one level more, and values are freed level by
/// level on the stack of the thread.
const NESTED: usize = 1_000;

struct PickleMachine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<PickleValue>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: BTreeMap<u32, PickleValue>,
    /// Values that were to be remembered: the number of the next one, where a pickle does not say it.
    remembered: u64,
    /// Containers that others were put into.
    nested: usize,
}

impl<'a> PickleMachine<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end =
            end.ok_or_else(|| wrong(format!("it breaks off behind {} bytes", self.bytes.len())))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Reads a number of `count` bytes, the lowest first.
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

    /// Reads the number of a place to keep values at, in letters.
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

    /// Counts that these are put into a container.
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

    /// One opcode; the value at the end.
    fn step(&mut self) -> Result<Option<PickleValue>> {
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
            // The length of a frame, which are for readers of streams.
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
            // Texts, bytes and arrays of bytes with a length of eight bytes.
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

/// Returns the value of a call. It is an array, the type of one with its letters, or bytes that Python 3 wrote for
/// Python 2.
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
        // Latin letters for bytes.
        ("_codecs encode", [PickleValue::Bytes(text), ..]) => {
            let text = String::from_utf8_lossy(text);
            PickleValue::Bytes(text.chars().map(|letter| u32::from(letter) as u8).collect())
        }
        // Protocol 5 makes an array at once, in a call; its order is "C" where it lies by rows.
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a text of Python 2.
    fn text(text: &[u8]) -> Vec<u8> {
        match u8::try_from(text.len()) {
            Ok(length) => [b"U", [length].as_slice(), text].concat(),
            Err(_) => [b"T", (text.len() as u32).to_le_bytes().as_slice(), text].concat(),
        }
    }

    fn int(number: usize) -> Vec<u8> {
        [b"M", (number as u16).to_le_bytes().as_slice()].concat()
    }

    /// Returns an array of bytes as Python 2 writes it.
    pub fn array(rows: usize, columns: usize, bytes: &[u8]) -> Vec<u8> {
        let mut pickle = b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01".to_vec();
        pickle.extend([int(rows), int(columns)].concat());
        pickle.extend(b"\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89");
        pickle.extend(text(bytes));
        pickle.extend(b"tb");
        pickle
    }

    pub fn ints(list: &[u8]) -> Vec<u8> {
        let each: Vec<u8> = list.iter().flat_map(|number| [b'K', *number]).collect();
        [b"]q\x04(", each.as_slice(), b"e"].concat()
    }

    pub fn texts(list: &[String]) -> Vec<u8> {
        let each: Vec<u8> = list.iter().flat_map(|name| text(name.as_bytes())).collect();
        [b"](", each.as_slice(), b"e"].concat()
    }

    /// Returns a dictionary of protocol 2.
    pub fn dict(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let each: Vec<u8> = pairs
            .iter()
            .flat_map(|(key, value)| [text(key.as_bytes()), value.clone()].concat())
            .collect();
        [b"\x80\x02}q\x01(", each.as_slice(), b"u."].concat()
    }

    #[test]
    fn dictionaries_of_lists_and_arrays_are_read() {
        let bytes: Vec<u8> = (0..=255).chain(0..=43).collect();
        let names = ["apple".to_owned(), "beaver".to_owned()];
        let pickle = dict(&[
            ("labels", ints(&[6, 9, 255])),
            ("data", array(3, 100, &bytes)),
            ("names", texts(&names)),
        ]);
        let value = read(&pickle).unwrap();
        assert_eq!(value.get("labels").unwrap().ints(), Some(vec![6, 9, 255]));
        assert_eq!(value.get("names").unwrap().texts().unwrap(), names);
        let (shape, found) = value.get("data").unwrap().byte_array().unwrap();
        assert_eq!((shape, found), (vec![3, 100], bytes.as_slice()));
        assert_eq!(value.get("fine_labels"), None);
        // An array by columns is none that is read.
        let turned: Vec<u8> = array(3, 100, &bytes);
        let place = turned.windows(3).position(|at| at == b"tb\x89").unwrap();
        let turned = [&turned[..place], b"tb\x88", &turned[place + 3..]].concat();
        assert!(read(&[turned.as_slice(), b"."].concat()).unwrap().byte_array().is_none());
    }

    #[test]
    fn values_that_were_kept_are_looked_up_and_numbers_have_signs() {
        let pickle = b"\x80\x02(U\x02abq\x03h\x03J\xfe\xff\xff\xff\x8a\x01\xffI12\nt.";
        let PickleValue::Tuple(values) = read(pickle).unwrap() else { panic!() };
        let text = PickleValue::Bytes(b"ab".as_slice().into());
        assert_eq!(
            *values,
            [text.clone(), text, PickleValue::Int(-2), PickleValue::Int(-1), PickleValue::Int(12)]
        );
    }

    #[test]
    fn the_letters_of_protocol_0_are_read() {
        let pickle =
            b"(dp1\nS'label_names'\np2\n(lp3\nS'airplane'\np4\naS'cat'\nag4\nasS'size'\nI10000\ns.";
        let value = read(pickle).unwrap();
        assert_eq!(
            value.get("label_names").unwrap().texts().unwrap(),
            ["airplane", "cat", "airplane"]
        );
        assert_eq!(value.get("size"), Some(&PickleValue::Int(10_000)));
        assert!(read(b"S'a\\x00'\n.").unwrap_err().to_string().contains("escapes"));
    }

    /// `{"labels": [3, 300], "data": [[0, 1, 2], [3, 4, 5]], "label_names": ["cat", "dog"], "more": [0, 1]}` as Python 3.13
    /// with NumPy 2 writes it.
    #[rustfmt::skip]
    const FOUR: &[&[u8]] = &[
        b"\x80\x04\x95\xf3\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x06labels\x94]\x94(K\x03M,\x01e\x8c\x04data\x94\x8c\x16numpy._",
        b"core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarr",
        b"ay\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x02K\x03\x86\x94h\x07\x8c\x05dtype\x94\x93\x94\x8c\x02u1\x94\x89\x88\x87\x94R",
        b"\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x89C\x06\x00\x01\x02\x03\x04\x05\x94t\x94b\x8c\x0blabel_n",
        b"ames\x94]\x94(\x8c\x03cat\x94\x8c\x03dog\x94e\x8c\x04more\x94h\x06h\x09K\x00\x85\x94h\x0b\x87\x94R\x94(K\x01K\x02\x85",
        b"\x94h\x13\x89C\x02\x00\x01\x94t\x94bu.",
    ];
    #[rustfmt::skip]
    const FIVE: &[&[u8]] = &[
        b"\x80\x05\x95\xd9\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x06labels\x94]\x94(K\x03M,\x01e\x8c\x04data\x94\x8c\x13numpy._",
        b"core.numeric\x94\x8c\x0b_frombuffer\x94\x93\x94(\x96\x06\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05\x94\x8c\x05",
        b"numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\x02u1\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK",
        b"\x00t\x94bK\x02K\x03\x86\x94\x8c\x01C\x94t\x94R\x94\x8c\x0blabel_names\x94]\x94(\x8c\x03cat\x94\x8c\x03dog\x94e",
        b"\x8c\x04more\x94h\x06(\x96\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01\x94h\x0dK\x02\x85\x94h\x11t\x94R\x94u.",
    ];
    /// `{"data": ..}`, the same array by columns.
    #[rustfmt::skip]
    const TURNED: &[&[u8]] = &[
        b"\x80\x05\x95\x86\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x04data\x94\x8c\x13numpy._core.numeric\x94\x8c\x0b_fro",
        b"mbuffer\x94\x93\x94(\x96\x06\x00\x00\x00\x00\x00\x00\x00\x00\x03\x01\x04\x02\x05\x94\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\x02u",
        b"1\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94bK\x02K\x03\x86\x94\x8c\x01F\x94t\x94R\x94s",
        b".",
    ];

    #[test]
    fn protocols_4_and_5_are_read_as_2_is() {
        for pickle in [FOUR, FIVE] {
            let value = read(&pickle.concat()).unwrap();
            assert_eq!(value.get("labels").unwrap().ints(), Some(vec![3, 300]));
            assert_eq!(value.get("label_names").unwrap().texts().unwrap(), ["cat", "dog"]);
            let array = |key| value.get(key).unwrap().byte_array().unwrap();
            assert_eq!(array("data"), (vec![2, 3], [0, 1, 2, 3, 4, 5].as_slice()));
            assert_eq!(array("more"), (vec![2], [0, 1].as_slice()), "its type is looked up");
            let whole = pickle.concat();
            (0..whole.len()).for_each(|end| drop(read(&whole[..end]).unwrap_err()));
        }
        let turned = read(&TURNED.concat()).unwrap();
        assert!(turned.get("data").unwrap().byte_array().is_none(), "by columns");
    }

    #[test]
    fn containers_in_containers_are_not_endless() {
        let (tuples, lists) = (
            [b")".as_slice(), &b"\x85".repeat(1_000_000), b"."].concat(),
            [b"]".repeat(1_000_000), b"a".repeat(999_999), b".".to_vec()].concat(),
        );
        for pickle in [tuples, lists] {
            let error = read(&pickle).unwrap_err().to_string();
            assert!(error.contains("more than 1000 containers"), "{error}");
        }
        // Names of files that Python 3 wrote for Python 2: a tuple and a call each.
        let name = b"c_codecs\nencode\nU\x01aU\x06latin1\x86R";
        let value = read(&[b"](", name.repeat(5_000).as_slice(), b"e."].concat()).unwrap();
        assert_eq!(value.texts().unwrap().len(), 5_000);
    }

    #[test]
    fn nothing_is_called_and_what_is_broken_is_refused() {
        let error = |pickle: &[u8]| read(pickle).unwrap_err().to_string();
        let harm = read(b"cposix\nsystem\n(U\x02lstR.").unwrap();
        assert!(matches!(harm, PickleValue::Made { name, .. } if &*name == "posix system"));
        let whole = dict(&[("labels", ints(&[1, 2]))]);
        for end in 0..whole.len() {
            read(&whole[..end]).unwrap_err();
        }
        assert!(error(b"\x80\x06.").contains("protocol 6"));
        assert!(error(b"\x80\x02\x97.").contains("opcode 0x97 at byte 2"));
        assert_eq!(read(b"\x80\x06.").unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(error(b"K\x01K\x02\x93.").contains("a name of no texts"));
        assert!(error(b"e.").contains("no mark") && error(b"(0").contains("opcode 0x30"));
        assert!(error(b"T\xff\xff\xff\xffabc").contains("breaks off behind 8 bytes"));
        assert!(
            error(b"K\x01b.").contains("empty stack") && error(b"h\x05.").contains("no value 5")
        );
        assert!(error(b"K\x01K\x02b.").contains("a state of nothing"));
    }
}
