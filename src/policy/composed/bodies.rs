//! Two bodies in one.

use crate::wire::{Body, WireError};

/// Bytes of the digest by which a download of the second stage names its features.
pub(super) const DIGEST_BYTES: usize = 8;

/// Joins two bodies into one; the meta records how much of it belongs to the first.
pub(super) fn join(first: Body, then: Body) -> Body {
    let mut meta = Vec::with_capacity(8 + first.meta.len() + then.meta.len());
    meta.extend((first.meta.len() as u32).to_le_bytes());
    meta.extend((first.sections.len() as u32).to_le_bytes());
    meta.extend(first.meta);
    meta.extend(then.meta);
    let sections = first.sections.into_iter().chain(then.sections).collect();
    Body { meta, sections }
}

/// Splits the output of [`join`] into its parts.
pub(super) fn split(body: &Body) -> Result<(Body, Body), WireError> {
    let number = |at: usize| {
        let bytes = body.meta.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let cut = || malformed("is cut short");
    let (meta, sections) = (number(0).ok_or_else(cut)?, number(4).ok_or_else(cut)?);
    let (first_meta, then_meta) = body.meta[8..].split_at_checked(meta).ok_or_else(cut)?;
    let (first, then) = body.sections.split_at_checked(sections).ok_or_else(cut)?;
    let part = |meta: &[u8], sections: &[_]| Body { meta: meta.into(), sections: sections.into() };
    Ok((part(first_meta, first), part(then_meta, then)))
}

pub(super) fn malformed(what: &str) -> WireError {
    WireError::Malformed(format!("the body of a staged method {what}"))
}
