//! Fields: the key or table that each is read from.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, Field, FieldsNamed, GenericArgument, LitStr, PathArguments, Result, Type};

use crate::{attributes, doc};

const KNOWN: [&str; 14] = [
    "default", "example", "at_least", "above", "at_most", "below", "source", "name", "table",
    "flatten", "read", "value", "first", "when",
];

/// A field with the entries of its `#[key(...)]`.
pub struct Key<'a> {
    field: &'a Field,
    /// Key in a file.
    pub name: String,
    default: Option<Expr>,
    example: Option<Expr>,
    /// Calls on the description: bounds and source.
    calls: Vec<TokenStream>,
    /// Keys are read from a table of this name.
    table: bool,
    /// Keys are read from the same table.
    flatten: bool,
    /// Reads the field by hand.
    read: Option<Expr>,
    /// No key: the field always has this value.
    value: Option<Expr>,
    /// Read before the others.
    first: bool,
    /// Condition of the key; without it the field has the default.
    when: Option<Expr>,
}

/// Reads the attributes of all fields.
pub fn keys(fields: &FieldsNamed) -> Result<Vec<Key<'_>>> {
    fields.named.iter().map(Key::new).collect()
}

/// Writes statements that read all fields, and the value that has them, `of { ... }`.
pub fn read(keys: &[Key<'_>], of: &TokenStream) -> Result<TokenStream> {
    let (first, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.first);
    let statements =
        first.into_iter().chain(others).map(Key::statement).collect::<Result<Vec<_>>>()?;
    let names = keys.iter().map(|key| &key.field.ident);
    Ok(quote!(#(#statements)* #of { #(#names),* }))
}

impl<'a> Key<'a> {
    /// Reads the attributes of a field.
    fn new(field: &'a Field) -> Result<Key<'a>> {
        let mut key = Key {
            field,
            name: attributes::name(field),
            default: None,
            example: None,
            calls: Vec::new(),
            table: false,
            flatten: false,
            read: None,
            value: None,
            first: false,
            when: None,
        };
        attributes::read(&field.attrs, "key", &KNOWN, |entry, meta| {
            match entry {
                "default" => key.default = Some(meta.value()?.parse()?),
                "example" => key.example = Some(meta.value()?.parse()?),
                "at_least" | "above" | "at_most" | "below" | "source" => {
                    let (call, value) = (meta.path.clone(), meta.value()?.parse::<Expr>()?);
                    key.calls.push(quote!(.#call(#value)));
                }
                "name" => key.name = meta.value()?.parse::<LitStr>()?.value(),
                "table" => key.table = true,
                "flatten" => key.flatten = true,
                "read" => key.read = Some(meta.value()?.parse()?),
                "value" => key.value = Some(meta.value()?.parse()?),
                "first" => key.first = true,
                "when" => key.when = Some(meta.value()?.parse()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(key)
    }

    /// Returns true if the key must be written.
    pub fn is_required(&self) -> bool {
        self.example.is_some()
    }

    /// Returns true if the field is one key of the table.
    pub fn is_key(&self) -> bool {
        !(self.table || self.flatten || self.value.is_some())
    }

    /// Writes `let field = ...;`. Expressions of attributes see `table`, `doc` and the fields before.
    fn statement(&self) -> Result<TokenStream> {
        let (ident, of) = (&self.field.ident, &self.field.ty);
        let value = self.expression()?;
        Ok(quote!(let #ident: #of = #value;))
    }

    fn expression(&self) -> Result<TokenStream> {
        let (name, of) = (&self.name, &self.field.ty);
        if let Some(value) = &self.value {
            return Ok(quote!(#value));
        }
        if let Some(read) = &self.read {
            let doc = doc::meaning(&self.field.attrs);
            return Ok(quote!({
                #[allow(unused_variables)]
                let doc = #doc;
                #read
            }));
        }
        let inner = optional(of);
        if self.table {
            return Ok(match inner {
                Some(inner) => quote!(table.optional_table(#name, <#inner>::read)),
                None => quote!(table.table(#name, <#of>::read)),
            });
        }
        if self.flatten {
            return Ok(quote!(<#of>::read(table)));
        }
        let doc = doc::meaning(&self.field.attrs);
        if doc.is_empty() {
            let message = format!("the key `{name}` needs a doc comment: its meaning");
            return Err(Error::new_spanned(self.field, message));
        }
        if self.when.is_some() && self.is_required() {
            let message = format!("the key `{name}` is required, not so `when` something holds");
            return Err(Error::new_spanned(self.field, message));
        }
        let (param, get) = match (&self.default, &self.example, inner) {
            (Some(default), None, _) => (
                quote!(crate::scenario::reader::Param::<#of>::new(#name, #default, #doc)),
                quote!(get),
            ),
            (None, Some(example), _) => (
                quote!(crate::scenario::reader::Param::<#of>::required(#name, #example, #doc)),
                quote!(get),
            ),
            (None, None, Some(inner)) => (
                quote!(crate::scenario::reader::Param::<#inner>::unset(#name, #doc)),
                quote!(optional),
            ),
            _ => {
                let message = format!(
                    "the key `{name}` needs `#[key(default = ...)]`, or `example = ...` where it must be written"
                );
                return Err(Error::new_spanned(self.field, message));
            }
        };
        let calls = &self.calls;
        let read = quote!(table.#get(&#param #(#calls)*));
        Ok(match &self.when {
            Some(when) => {
                let otherwise = self.default.as_ref().map_or(quote!(None), |value| quote!(#value));
                quote!(if #when { #read } else { #otherwise })
            }
            None => read,
        })
    }
}

/// The `T` of `Option<T>`.
fn optional(of: &Type) -> Option<&Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(of) => of.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(of) => Some(of),
            _ => None,
        }),
        _ => None,
    }
}
