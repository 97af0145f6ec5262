//! Rows of NumPy's arrays, packed in a `.npz` or as `.npy` files in a folder.

use std::io::Error;
use std::path::Path;

use zip::ZipArchive;

use super::npy::Array;
use super::{Rows, TableNames};
use crate::data::DataError;
use crate::files::{self, Kind};

/// Rows of the arrays in a folder.
pub(super) fn folder(path: &Path, names: &TableNames) -> Result<Rows, DataError> {
    rows(path, names, &|name| {
        let file = path.join(format!("{name}.npy"));
        let source =
            files::open(&file, Kind::Data).map_err(|e| DataError::io(&file, "an array", e))?;
        Array::read(std::io::BufReader::new(source), Kind::Data.limit().0)
            .map_err(|error| broken(&file, &error))
    })
}

/// Rows of the arrays of a `.npz`, whose names are those of the scenario after `named`.
pub(super) fn packed(
    path: &Path,
    names: &TableNames,
    named: &dyn Fn(&str) -> String,
) -> Result<Rows, DataError> {
    rows(path, names, &|name| {
        let name = named(name);
        let mut zip = archive(path)?;
        let there = members(&zip);
        let member = zip.by_name(&format!("{name}.npy")).map_err(|_| DataError::Corrupt {
            path: path.to_owned(),
            expected: format!("an array `{name}`"),
            found: format!("the arrays {}", there.join(", ").replace(".npy", "")),
            advice: "Name the right one: data.input, data.label, data.client".to_owned(),
        })?;
        let place = path.join(&name);
        Array::read(member, Kind::Data.limit().0).map_err(|error| broken(&place, &error))
    })
}

/// Rows of both parts, where a `.npz` has an array of rows for each; `None` where it does not.
pub(super) fn both(path: &Path, names: &TableNames) -> Result<Option<(Rows, Rows)>, DataError> {
    let there = members(&archive(path)?);
    let has = |name: String| there.contains(&format!("{name}.npy"));
    let input = &names.input;
    let before = |part: &'static str| move |name: &str| format!("{part}_{name}");
    let behind = |part: &'static str| move |name: &str| format!("{name}_{part}");
    if has(format!("train_{input}")) {
        let train = packed(path, names, &before("train"))?;
        return Ok(Some((train, packed(path, names, &before("test"))?)));
    }
    if has(format!("{input}_train")) {
        let train = packed(path, names, &behind("train"))?;
        return Ok(Some((train, packed(path, names, &behind("test"))?)));
    }
    Ok(None)
}

fn rows(
    path: &Path,
    names: &TableNames,
    array: &dyn Fn(&str) -> Result<Array, DataError>,
) -> Result<Rows, DataError> {
    let failed = |name: &str| {
        let place = path.join(name);
        move |error: Error| broken(&place, &error)
    };
    let labels = array(&names.label)?.labels().map_err(failed(&names.label))?;
    let owners = match &names.client {
        Some(client) => Some(array(client)?.labels().map_err(failed(client))?),
        None => None,
    };
    let values = array(&names.input)?.rows(names.width).map_err(failed(&names.input))?;
    Ok(Rows { values, labels, owners })
}

fn members(zip: &ZipArchive<std::io::BufReader<std::fs::File>>) -> Vec<String> {
    // A name that is no text is the name of no array.
    zip.file_names().filter_map(|name| name.ok().map(std::borrow::Cow::into_owned)).collect()
}

fn archive(path: &Path) -> Result<ZipArchive<std::io::BufReader<std::fs::File>>, DataError> {
    let file = files::open(path, Kind::Data).map_err(|e| DataError::io(path, "a .npz file", e))?;
    ZipArchive::new(std::io::BufReader::new(file))
        .map_err(|error| DataError::corrupt(path, "a whole .npz file", error.to_string()))
}

fn broken(place: &Path, error: &Error) -> DataError {
    DataError::Corrupt {
        path: place.to_owned(),
        expected: "an array that fits".to_owned(),
        found: error.to_string(),
        advice: "Write it again with numpy.save or numpy.savez".to_owned(),
    }
}
