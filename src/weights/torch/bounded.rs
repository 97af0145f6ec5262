//! Pickles as plain data, with limits: candle's machine copies memoized objects and drops nested ones recursively, so
//! that a few malicious bytes could demand any amount of memory or stack. Here every step is counted.

use std::io::BufRead;

use candle_core::pickle::{Object, Stack};

/// Largest nesting depth of objects; PyTorch's have about ten.
const DEPTH: u32 = 64;

/// Largest number of objects that are made or copied.
const OBJECTS: u64 = 8_000_000;

/// First of the opcodes that make a tuple of a few objects.
const TUPLE1: u8 = 0x85;
const PERSISTENT: u8 = b'Q';
/// Opcodes that memoize a copy of the last object.
const PUTS: [u8; 2] = [b'q', b'r'];
/// Opcodes that add to a list or dictionary. All others that take objects make one of them.
const GROWS: [u8; 4] = [b'a', b'e', b's', b'u'];
/// Opcode for a text whose length has four bytes.
const TEXT: u8 = b'X';

/// Returns the object in a pickle.
///
/// # Errors
/// Returns the reason if the pickle cannot be read.
pub(super) fn unpickled(bytes: &[u8]) -> Result<Object, String> {
    let mut reader = bytes;
    let mut stack = Stack::empty();
    // Nesting depth of every object on the stack.
    let mut depths: Vec<u32> = Vec::new();
    let mut objects = 0u64;
    loop {
        let ahead = reader.fill_buf().map_err(|error| error.to_string())?;
        let Some(op) = ahead.first().copied() else { return Err("it ends too early".to_owned()) };
        if let (TEXT, Some(length)) = (op, ahead.get(1..5)) {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            if length as usize > ahead.len() {
                return Err("it ends within a text".to_owned());
            }
        }
        let before = stack.stack().len();
        let done = stack.read(&mut reader).map_err(|error| first_line(&error.to_string()))?;
        let now = stack.stack();
        if now.len() > before {
            let (depth, count) = now.last().map_or((1, 1), measured);
            depths.push(depth);
            objects += count;
        } else if now.len() < before || op == TUPLE1 || op == PERSISTENT {
            let parts = depths.split_off(now.len().saturating_sub(1));
            let (first, rest) = parts.split_first().map_or((0, &[][..]), |(f, rest)| (*f, rest));
            let rest = rest.iter().max().map_or(0, |depth| depth + 1);
            depths.push(if GROWS.contains(&op) { first.max(rest) } else { rest.max(first + 1) });
        } else if PUTS.contains(&op) {
            objects += now.last().map_or(0, |object| measured(object).1);
        }
        if depths.last().is_some_and(|depth| *depth > DEPTH) {
            return Err(format!("more than {DEPTH} objects within each other"));
        }
        if objects > OBJECTS {
            return Err(format!("more than {OBJECTS} objects"));
        }
        if done {
            return stack.finalize().map_err(|error| first_line(&error.to_string()));
        }
    }
}

/// Returns the depth of an object and the number of its parts.
///
/// Objects on the stack never exceed the largest depth.
fn measured(object: &Object) -> (u32, u64) {
    let of = |parts: &mut dyn Iterator<Item = &Object>| {
        parts.map(measured).fold((0, 0), |(depth, count), (d, c)| (depth.max(d), count + c))
    };
    let (depth, count) = match object {
        Object::Tuple(parts) | Object::List(parts) => of(&mut parts.iter()),
        Object::Dict(pairs) => of(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
        Object::Reduce { callable, args } | Object::Build { callable, args } => {
            of(&mut [&**callable, &**args].into_iter())
        }
        Object::PersistentLoad(id) => of(&mut std::iter::once(&**id)),
        // A long text counts as the number of objects that would need its memory.
        Object::Unicode(text) => (0, text.len() as u64 / 64),
        _ => (0, 0),
    };
    (depth + 1, count + 1)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::torch::state::found;
    use proptest::prelude::*;

    /// Opcodes that candle knows, with small arguments.
    fn op() -> impl Strategy<Value = Vec<u8>> {
        let words = [
            &b"("[..],
            b")",
            b"]",
            b"}",
            b"N",
            b"t",
            b"\x85",
            b"\x86",
            b"\x87",
            b"R",
            b"b",
            b"s",
            b"u",
            b"a",
            b"e",
            b"d",
            b"Q",
            b"q\0",
            b"h\0",
            b"K\x07",
            b"M\x07\x07",
            b"J\xff\xff\xff\xff",
            b"X\x01\0\0\0a",
            b"\x81",
            b"\x8a\x09999999999",
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            b"ctorch._utils\n_rebuild_parameter\n",
            b"ctorch._tensor\n_rebuild_from_type_v2\n",
            b"ctorch\nFloatStorage\n",
            b"X\x05\0\0\0model",
            b".",
        ];
        prop::sample::select(words.map(<[u8]>::to_vec).to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_pickle_is_read_or_refused(ops in prop::collection::vec(op(), 0..60)) {
            if let Ok(object) = unpickled(&ops.concat()) {
                let _ = found(object, None);
            }
        }
    }

    #[test]
    fn plain_data_is_read() {
        // {"a": (1, 2)}
        let read = unpickled(b"\x80\x02}q\0X\x01\0\0\0aq\x01K\x01K\x02\x86q\x02s.").unwrap();
        let pair = Object::Tuple(vec![Object::Int(1), Object::Int(2)]);
        assert_eq!(read, Object::Dict(vec![(Object::Unicode("a".to_owned()), pair)]));
    }

    #[test]
    fn a_long_list_is_no_deep_one() {
        let mut bytes = b"\x80\x02]".to_vec();
        bytes.extend(b"K\x01a".repeat(500));
        bytes.push(b'.');
        assert!(matches!(unpickled(&bytes).unwrap(), Object::List(list) if list.len() == 500));
    }

    #[test]
    fn depth_copies_and_lengths_have_an_end() {
        let refused = |bytes: &[u8]| unpickled(bytes).unwrap_err();
        let deep = [&b"\x80\x02K\x01"[..], &[TUPLE1; 200_000], b"."].concat();
        assert!(refused(&deep).contains("within each other"));
        // Every step remembers a pair of what was remembered before: 2^50 objects, at last.
        let mut twice = b"\x80\x02K\x01".to_vec();
        twice.extend(b"q\x01h\x01\x86".repeat(50));
        assert!(refused(&[&twice[..], b"."].concat()).contains("objects"));
        assert!(refused(b"\x80\x02X\xff\xff\xff\x7fa.").contains("ends within a text"));
        assert!(!refused(b"\x80\x02K").is_empty());
        assert!(refused(b"\x80\x02").contains("ends too early"));
        assert!(refused(b"\x80\x02\xfe.").contains("op-code"));
    }
}
