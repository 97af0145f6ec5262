//! Python values as TOML: dictionaries of scenarios, and overrides.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

/// Converts a value to TOML; NumPy numbers and paths become plain numbers and texts.
///
/// # Errors
/// Fails with `TypeError` for a value that TOML does not have.
pub fn to_toml(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::String(value.extract()?));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        return Ok(Value::Table(to_table(table)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let entries = value.try_iter()?.map(|entry| to_toml(&entry?));
        return Ok(Value::Array(entries.collect::<PyResult<_>>()?));
    }
    // Scalars and arrays of NumPy become plain numbers and lists; a path becomes its text.
    for method in ["tolist", "__fspath__"] {
        if let Ok(method) = value.getattr(method) {
            return to_toml(&method.call0()?);
        }
    }
    let of = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("a scenario cannot hold a value of type `{of}`")))
}

/// Converts a dictionary with text keys to a table. Keys with the value `None` are left out.
///
/// # Errors
/// Fails with `TypeError` for other keys and values.
pub fn to_table(of: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in of.iter().filter(|(_, value)| !value.is_none()) {
        table.insert(key.extract()?, to_toml(&value)?);
    }
    Ok(table)
}

/// Returns overrides as the words after `--set`: `path=value`.
///
/// # Errors
/// Fails with `TypeError` for keys and values that are none of TOML.
pub fn to_overrides(of: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    let Some(of) = of else { return Ok(Vec::new()) };
    let overrides = of.iter().map(|(key, value)| {
        let key: String = key.extract()?;
        Ok(format!("{key}={}", to_toml(&value)?))
    });
    overrides.collect()
}
