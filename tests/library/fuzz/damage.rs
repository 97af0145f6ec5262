//! Damage to valid inputs.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One thing that happens to bytes.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Flip(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    Double(Index, usize),
    Insert(Index, &'static [u8]),
}

/// Values that often break readers of numbers, tables and strings.
const PIECES: [&[u8]; 18] = [
    b"0",
    b"-1",
    b"nan",
    b"inf",
    b"1e308",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"\"",
    b"[[",
    b"}}",
    b"=",
    b",",
    b"\n",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    "\u{1b}[2J\u{202e}".as_bytes(),
];

impl Damage {
    fn strike(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let end = |at: usize, count: &usize| (at + count).min(length);
        if length == 0 {
            return;
        }
        match self {
            Damage::Set(at, value) => bytes[at.index(length)] = *value,
            Damage::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Damage::Cut(at) => bytes.truncate(at.index(length)),
            Damage::Remove(at, count) => {
                drop(bytes.drain(at.index(length)..end(at.index(length), count)))
            }
            Damage::Double(at, count) => {
                let at = at.index(length);
                let piece = bytes[at..end(at, count)].to_vec();
                bytes.splice(at..at, piece);
            }
            Damage::Insert(at, piece) => {
                let at = at.index(length);
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        (at(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        at().prop_map(Damage::Cut),
        (at(), 1..40usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (at(), 1..200usize).prop_map(|(at, count)| Damage::Double(at, count)),
        (at(), select(&PIECES[..])).prop_map(|(at, piece)| Damage::Insert(at, piece)),
    ]
}

/// One of the corpus, struck a few times.
pub fn damaged(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (select(corpus), vec(damage(), 1..6)).prop_map(|(mut bytes, struck)| {
        struck.iter().for_each(|damage| damage.strike(&mut bytes));
        bytes
    })
}
