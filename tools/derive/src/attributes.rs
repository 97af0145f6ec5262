//! A field's name, and a derive's own attributes, such as `#[column(unit = "s")]`.

use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Field, Result};

/// Returns the name of a field without the `r#` that a keyword needs.
pub fn name(field: &Field) -> String {
    field.ident.as_ref().map(|ident| ident.unraw().to_string()).unwrap_or_default()
}

/// Passes every entry of the attributes `#[name(...)]` to `read`, which returns false for an unknown one.
///
/// # Errors
/// Returns an error if an entry is unknown (`known` lists the valid ones) or malformed.
pub fn read(
    attributes: &[Attribute],
    name: &str,
    known: &[&str],
    mut read: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<bool>,
) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        attribute.parse_nested_meta(|meta| {
            let entry = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match read(&entry, &meta)? {
                true => Ok(()),
                false => Err(Error::new_spanned(
                    &meta.path,
                    format!(
                        "unknown entry `{entry}` in `#[{name}]`: there are {}",
                        known.join(", ")
                    ),
                )),
            }
        })?;
    }
    Ok(())
}
