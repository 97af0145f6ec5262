//! Derives that generate, from one definition of a type, everything that the program needs of it elsewhere.
//!
//! * [`Columns`]: the columns of a table, from the fields of its row;
//! * [`Document`]: the keys of a document, from the fields that serde writes;
//! * [`Keys`]: the keys of a table of a scenario, from the fields of its section;
//! * [`Choice`]: the words of a key, from the variants of an enum;
//! * [`Saved`]: saving and loading of state that is kept between rounds, from the fields of a struct.
//!
//! Every derive is in its own file, as a function from a parsed type to code, so that tests can read its output. The
//! code names items of fedcast by their paths in the crate.

mod attributes;
mod choice;
mod columns;
mod doc;
mod document;
mod keys;
mod saved;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Lists the columns of a table: names and types of the fields, in their order. The first paragraph of a field's
/// documentation is the meaning of its column.
///
/// The unit follows from the name (`…_s`, `…_mb`, `…_mb_per_s`, `bytes_…`), unless `#[column(unit = "share")]` says
/// another. `#[column(as_in = ROUND)]` takes unit and meaning of a column that several tables have.
#[proc_macro_derive(Columns, attributes(column))]
pub fn derive_columns(input: TokenStream) -> TokenStream {
    written(columns::derive(&parse_macro_input!(input)))
}

/// Lists the keys of a document, or of a part of one: the fields of a struct in their order, as serde names, flattens
/// or skips them. The first paragraph of a field's documentation is the meaning of its key. A newtype is its value, an
/// enum without fields is text.
///
/// The unit follows from the name as that of a column, or else from the type. `#[document(...)]` has the rest:
///
/// | entry | meaning |
/// |---|---|
/// | `unit = "share"` | unit; of a struct, that of its keys that have no other |
/// | `keys("direction", "outcome")` | words for the keys of maps, from the outermost |
/// | `of = "the data set"` | owner of the keys inside, appended to their meanings |
/// | `name = "<own|all>"` | name in the dictionary, for several fields that mean the same |
/// | `skip` | not in the dictionary: another field has the name of both |
/// | `content = SUMS` | keys inside that are listed by hand |
#[proc_macro_derive(Document, attributes(document))]
pub fn derive_document(input: TokenStream) -> TokenStream {
    written(document::derive(&parse_macro_input!(input)))
}

/// Makes an enum without fields, which derives `ValueEnum`, the type of a key: its variants are the words.
#[proc_macro_derive(Choice)]
pub fn derive_choice(input: TokenStream) -> TokenStream {
    written(choice::derive(&parse_macro_input!(input)))
}

/// Writes `fn read(table)` of a section, which reads its keys in the order of fields, and `Default` where no key must
/// be written.
///
/// The first paragraph of a field's documentation is the text of its key. `#[key(...)]` has the rest; its expressions
/// see `table`, `doc` and the fields before:
///
/// | entry | meaning |
/// |---|---|
/// | `default = 0.1` | value where the key is not written; without it the field is an `Option` |
/// | `example = 0.1` | the key must be written; an error proposes this |
/// | `when = kind.is_drawn()` | condition of the key; without it the field, an `Option`, is `None`, or another has its default |
/// | `at_least`, `above`, `at_most`, `below`, `or_infinite` | bounds |
/// | `source = "HGP"` | where the default comes from |
/// | `name = "use"` | the key, where it is no name of a field; or an expression |
/// | `table` | keys in a table of this name, read by `read` of the field's type |
/// | `flatten` | keys in the same table, read by `read` of the field's type |
/// | `read = word_or_number(table)` | read by hand |
/// | `value = Vec::new()` | no key |
/// | `first` | read, and so listed, before the fields above it, whose expressions then see it |
///
/// `#[keys(given(preset: Preset))]` adds arguments to `read`, which `#[keys(function = read_preset)]` names otherwise.
/// There is then no `Default`, unless `default_given(Preset::Ideal)` has the arguments for it.
/// `#[keys(check = section.check(table))]` is an expression for what contradicts in the value, `section`.
/// `#[keys(required)]` leaves out `Default` where a flattened table has a key that must be written.
///
/// Of an enum `#[keys(tag = "kind", default = Constant)]` names the key that chooses the variant (`example` where it
/// must be written); the documentation of the enum is the text of that key, that of a variant the meaning of its word,
/// and fields are keys as above. The word is called `…Word`; `default` may be an expression of that type. `unreadable =
/// Iid` is the value after an error in the word itself, when no other key is judged; `others("rest")` are keys that the
/// variants read by other means, so that with another variant an error says why they mean nothing.
#[proc_macro_derive(Keys, attributes(keys, key))]
pub fn derive_keys(input: TokenStream) -> TokenStream {
    written(keys::derive(&parse_macro_input!(input)))
}

/// Saves a struct in a body field by field, and loads it: every field is a `SavedField`, which appends numbers to the
/// meta of the body and tensors to its sections. The format is thus the order of fields, once for numbers and once for
/// tensors, and a field that is a derived struct itself stands as its fields would.
#[proc_macro_derive(Saved)]
pub fn derive_saved(input: TokenStream) -> TokenStream {
    written(saved::derive(&parse_macro_input!(input)))
}

fn written(code: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    code.unwrap_or_else(syn::Error::into_compile_error).into()
}
