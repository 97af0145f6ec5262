//! Rows of NumPy's arrays, packed in a `.npz` or as `.npy` files in a folder.

use std::path::Path;

use zip::ZipArchive;

use super::array_error::ArrayError;
use super::npy::Array;
use super::{FileRows, PartRole, TableNames};
use crate::data::foreign::foreign;
use crate::data::{Cause, DataError};
use crate::files::{self, FileKind};

/// Rows of the arrays in a folder.
pub(super) fn folder(
    path: &Path,
    names: &TableNames,
    role: PartRole,
) -> Result<FileRows, DataError> {
    rows(path, names, role, &|name| {
        let file = path.join(format!("{name}.npy"));
        let source =
            files::open(&file, FileKind::Data).map_err(|e| DataError::io(&file, "an array", e))?;
        Array::read(std::io::BufReader::new(source), FileKind::Data.limit().0)
            .map_err(|error| foreign(&file).unwrap_or_else(|| broken(&file, &error)))
    })
}

/// Rows of the arrays of a `.npz`, whose names are those of the scenario after `named`.
pub(super) fn packed(
    path: &Path,
    names: &TableNames,
    role: PartRole,
    named: &dyn Fn(&str) -> String,
) -> Result<FileRows, DataError> {
    rows(path, names, role, &|name| {
        let name = named(name);
        let mut zip = archive(path)?;
        let there = members(&zip);
        let member = zip.by_name(&format!("{name}.npy")).map_err(|_| {
            DataError::advised(
                path,
                format!("an array `{name}`"),
                format!("the arrays {}", there.join(", ").replace(".npy", "")),
                "Name the right one: data.input, data.label, data.client",
            )
        })?;
        let place = path.join(&name);
        Array::read(member, FileKind::Data.limit().0).map_err(|error| broken(&place, &error))
    })
}

/// Rows of both parts, where a `.npz` has an array of rows for each; `None` where it does not.
pub(super) fn both(
    path: &Path,
    names: &TableNames,
) -> Result<Option<(FileRows, FileRows)>, DataError> {
    let there = members(&archive(path)?);
    let has = |name: String| there.contains(&format!("{name}.npy"));
    let input = &names.input;
    let before = |part: &'static str| move |name: &str| format!("{part}_{name}");
    let behind = |part: &'static str| move |name: &str| format!("{name}_{part}");
    if has(format!("train_{input}")) {
        let train = packed(path, names, PartRole::Train, &before("train"))?;
        return Ok(Some((train, packed(path, names, PartRole::Test, &before("test"))?)));
    }
    if has(format!("{input}_train")) {
        let train = packed(path, names, PartRole::Train, &behind("train"))?;
        return Ok(Some((train, packed(path, names, PartRole::Test, &behind("test"))?)));
    }
    Ok(None)
}

fn rows(
    path: &Path,
    names: &TableNames,
    role: PartRole,
    array: &dyn Fn(&str) -> Result<Array, DataError>,
) -> Result<FileRows, DataError> {
    let labels = |name: &str| {
        let place = path.join(name);
        array(name)?.labels(&place, name)
    };
    let client = names.client.as_deref().filter(|_| role == PartRole::Train);
    let owners = client.map(labels).transpose()?;
    let labels = labels(&names.label)?;
    let place = path.join(&names.input);
    let values = array(&names.input)?.rows(names.width).map_err(|error| broken(&place, &error))?;
    Ok(FileRows { values, labels, owners, columns: None, notes: Vec::new() })
}

fn members(zip: &ZipArchive<std::io::BufReader<std::fs::File>>) -> Vec<String> {
    // A name that is no text is the name of no array.
    zip.file_names().filter_map(|name| name.ok().map(std::borrow::Cow::into_owned)).collect()
}

fn archive(path: &Path) -> Result<ZipArchive<std::io::BufReader<std::fs::File>>, DataError> {
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, "a .npz file", e))?;
    ZipArchive::new(std::io::BufReader::new(file)).map_err(|error| {
        foreign(path).unwrap_or_else(|| {
            DataError::because(Cause::Damaged, path, "a whole .npz file", error.to_string())
        })
    })
}

pub(super) fn broken(place: &Path, error: &ArrayError) -> DataError {
    DataError::advised(place, "an array that fits", error.to_string(), error.advice())
}
