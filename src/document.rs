//! Keys of the JSON documents that a run leaves, read off the types that are serialized.
//!
//! A type derives [`Document`]: its fields are the keys, their documentation the meanings. The data dictionary writes
//! them with dots.
//!
//! ```
//! use fedcast::document::{CellType, Content, Document};
//! use fedcast::quantity::Bytes;
//! assert!(matches!(Bytes::CONTENT, Content::Value(CellType::Int, "bytes")));
//! assert!(matches!(Vec::<Option<f64>>::CONTENT, Content::List(Content::Value(CellType::Float, ""))));
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use fedcast_derive::Document;
use serde::Serialize;

/// Type of a cell of a table or of a value in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// A whole number.
    Int,
    /// A number with a fraction, written as the shortest text that reads back to the same bits.
    Float,
    /// A text.
    Text,
}

impl CellType {
    /// The word in the dictionary.
    pub fn word(self) -> &'static str {
        match self {
            CellType::Int => "int",
            CellType::Float => "float",
            CellType::Text => "text",
        }
    }
}

/// Inside of a document, or of a value in it.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A number or a text, with the unit that its type has.
    Value(CellType, &'static str),
    /// Keys of a struct.
    Keys(&'static [Key]),
    /// Entries of a list.
    List(&'static Content),
    /// Values of a map, under any keys.
    Map(&'static Content),
    /// True or false.
    Flag,
    /// A value of any type.
    Any,
}

impl Content {
    /// Returns the type of a single value.
    ///
    /// # Panics
    /// It is none; in a constant that is a compile error.
    pub const fn cells(self) -> CellType {
        match self {
            Content::Value(cells, _) => cells,
            _ => panic!("a cell has a single value"),
        }
    }
}

/// Key of a document.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name; empty where the keys of the content take its place.
    pub name: &'static str,
    /// Type of the value, or the keys in it.
    pub content: Content,
    /// Words for the keys of maps in the content, from the outermost.
    pub placeholders: &'static [&'static str],
    /// Unit, where it is not that of the type.
    pub unit: Option<&'static str>,
    /// A noun phrase; of no use where the content has keys.
    pub meaning: &'static str,
    /// Owner of the keys of the content, appended to their meanings; empty if they need none.
    pub of: &'static str,
    /// True if the key, or the keys that take its place, are there whatever the value is.
    pub is_always_written: bool,
}

impl Key {
    /// A key of which nothing is known yet.
    pub const BLANK: Key = Key {
        name: "",
        content: Content::Keys(&[]),
        placeholders: &[],
        unit: None,
        meaning: "",
        of: "",
        is_always_written: false,
    };
}

/// Type that is written as a document, or as a part of one.
pub trait Document {
    /// Keys of the document; for a single value, its type.
    const CONTENT: Content;
}

macro_rules! values {
    ($($of:ty: $cells:ident),*) => {$(
        impl Document for $of {
            const CONTENT: Content = Content::Value(CellType::$cells, "");
        }
    )*};
}
values!(u8: Int, u16: Int, u32: Int, u64: Int, usize: Int, f64: Float, str: Text, String: Text);
values!(PathBuf: Text, Path: Text);

impl Document for bool {
    const CONTENT: Content = Content::Flag;
}

impl Document for serde_json::Value {
    const CONTENT: Content = Content::Any;
}

impl<T: Document + ?Sized> Document for &T {
    const CONTENT: Content = T::CONTENT;
}

impl<T: Document + ?Sized> Document for Arc<T> {
    const CONTENT: Content = T::CONTENT;
}

/// Two values are a list.
impl<T: Document> Document for (T, T) {
    const CONTENT: Content = Content::List(&T::CONTENT);
}

impl<T: Document> Document for Option<T> {
    const CONTENT: Content = T::CONTENT;
}

impl<T: Document> Document for [T] {
    const CONTENT: Content = Content::List(&T::CONTENT);
}

impl<T: Document, const N: usize> Document for [T; N] {
    const CONTENT: Content = Content::List(&T::CONTENT);
}

impl<T: Document> Document for Vec<T> {
    const CONTENT: Content = Content::List(&T::CONTENT);
}

impl<K, T: Document> Document for BTreeMap<K, T> {
    const CONTENT: Content = Content::Map(&T::CONTENT);
}
