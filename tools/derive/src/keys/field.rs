//! Fields of a section, and the key or table from which each is read.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Error, Expr, Field, FieldsNamed, GenericArgument, PathArguments, Result, Type, parse_quote,
};

use crate::{attributes, doc};

const KNOWN: [&str; 15] = [
    "default",
    "example",
    "when",
    "at_least",
    "above",
    "at_most",
    "below",
    "or_infinite",
    "source",
    "name",
    "table",
    "flatten",
    "read",
    "value",
    "first",
];

/// Field with the entries of its `#[key(...)]`.
pub struct Key<'a> {
    field: &'a Field,
    /// Key in a file, usually a literal.
    pub name: Expr,
    default: Option<Expr>,
    example: Option<Expr>,
    /// Condition of the key. If it is false, the field is `None` or has the default.
    when: Option<Expr>,
    /// Calls on the description of the key: bounds and source.
    calls: Vec<TokenStream>,
    /// True if keys are read from a table with the key's name.
    table: bool,
    /// True if keys are read from the same table.
    flatten: bool,
    /// Expression that reads the field.
    read: Option<Expr>,
    /// Fixed value of a field without a key.
    value: Option<Expr>,
    /// True if it is read before the others.
    first: bool,
}

/// Parses the attributes of all fields.
pub fn keys(fields: &FieldsNamed) -> Result<Vec<Key<'_>>> {
    fields.named.iter().map(Key::new).collect()
}

/// Returns statements that read all fields, and the value `of { ... }` that has them.
pub fn read(keys: &[Key<'_>], of: &TokenStream) -> Result<TokenStream> {
    let (first, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.first);
    let statements =
        first.into_iter().chain(others).map(Key::statement).collect::<Result<Vec<_>>>()?;
    let names = keys.iter().map(|key| &key.field.ident);
    Ok(quote!(#(#statements)* #of { #(#names),* }))
}

impl<'a> Key<'a> {
    /// Parses the attributes of a field.
    fn new(field: &'a Field) -> Result<Key<'a>> {
        let name = attributes::name(field);
        let mut key = Key {
            field,
            name: parse_quote!(#name),
            default: None,
            example: None,
            when: None,
            calls: Vec::new(),
            table: false,
            flatten: false,
            read: None,
            value: None,
            first: false,
        };
        attributes::read(&field.attrs, "key", &KNOWN, |entry, meta| {
            match entry {
                "default" => key.default = Some(meta.value()?.parse()?),
                "example" => key.example = Some(meta.value()?.parse()?),
                "at_least" | "above" | "at_most" | "below" | "source" => {
                    let (call, value) = (meta.path.clone(), meta.value()?.parse::<Expr>()?);
                    key.calls.push(quote!(.#call(#value)));
                }
                "when" => key.when = Some(meta.value()?.parse()?),
                "or_infinite" => key.calls.push(quote!(.or_infinite())),
                "name" => key.name = meta.value()?.parse()?,
                "table" => key.table = true,
                "flatten" => key.flatten = true,
                "read" => key.read = Some(meta.value()?.parse()?),
                "value" => key.value = Some(meta.value()?.parse()?),
                "first" => key.first = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(key)
    }

    /// Returns true if the key is required.
    pub fn is_required(&self) -> bool {
        self.example.is_some() && self.when.is_none()
    }

    /// Returns the key as text, for comparisons.
    pub fn word(&self) -> String {
        let name = &self.name;
        quote!(#name).to_string()
    }

    /// Returns true if the field is one key of the table.
    pub fn is_key(&self) -> bool {
        !(self.table || self.flatten || self.value.is_some())
    }

    /// Returns the statement `let field = ...;`. Expressions of attributes see `table`, `doc` and earlier fields.
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
            let name = attributes::name(self.field);
            let message = format!("the key `{name}` needs a doc comment: its meaning");
            return Err(Error::new_spanned(self.field, message));
        }
        // A key with a condition has the type inside its `Option`.
        let of = match (&self.when, inner) {
            (Some(_), Some(inner)) => inner,
            (Some(when), None) if self.default.is_none() => {
                let name = attributes::name(self.field);
                let message = format!(
                    "the key `{name}` with `when` must be the field of an `Option` or have a default"
                );
                return Err(Error::new_spanned(when, message));
            }
            _ => of,
        };
        let calls = &self.calls;
        let read = match (&self.default, &self.example, inner) {
            (Some(default), None, _) => {
                let param = quote!(crate::scenario::reader::Param::<#of>::new);
                quote!(table.get(&#param(#name, #default, #doc) #(#calls)*))
            }
            (None, Some(example), _) => {
                let param = quote!(crate::scenario::reader::Param::<#of>::required);
                quote!(table.get(&#param(#name, #example, #doc) #(#calls)*))
            }
            (None, None, Some(inner)) => {
                let param = quote!(crate::scenario::reader::Param::<#inner>::unset);
                let read = quote!(table.optional(&#param(#name, #doc) #(#calls)*));
                return Ok(match &self.when {
                    Some(when) => quote!(if #when { #read } else { None }),
                    None => read,
                });
            }
            _ => {
                let name = attributes::name(self.field);
                let message = format!(
                    "the key `{name}` needs `#[key(default = ...)]`, or `example = ...` where it must be written"
                );
                return Err(Error::new_spanned(self.field, message));
            }
        };
        Ok(match (&self.when, inner, &self.default) {
            (Some(when), None, Some(default)) => quote!(if #when { #read } else { #default }),
            (Some(when), ..) => quote!(if #when { Some(#read) } else { None }),
            (None, ..) => read,
        })
    }
}

/// Returns the `T` of `Option<T>`, if it is one.
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
