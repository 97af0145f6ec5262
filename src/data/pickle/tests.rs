//! Tests of pickles, and pickles for tests of what reads them.

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
    assert_eq!(value.get("label_names").unwrap().texts().unwrap(), ["airplane", "cat", "airplane"]);
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
    assert!(error(b"K\x01b.").contains("empty stack") && error(b"h\x05.").contains("no value 5"));
    assert!(error(b"K\x01K\x02b.").contains("a state of nothing"));
}
