//! Parameters as NumPy arrays and back.
//!
//! Python's stable ABI gives no access to an array's memory, so values are passed as bytes, with one copy each way.

use std::sync::Arc;

use fedcast::model::{Parameter, ParameterSet};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

/// Returns a dictionary of read-only arrays of f32 by name.
pub fn to_arrays<'py>(py: Python<'py>, set: &ParameterSet) -> PyResult<Bound<'py, PyDict>> {
    let numpy = py.import("numpy")?;
    let (from_buffer, dtype) = (numpy.getattr("frombuffer")?, numpy.getattr("float32")?);
    let arrays = PyDict::new(py);
    for (name, parameter) in set.iter() {
        let count = parameter.values.len() * size_of::<f32>();
        let bytes = PyBytes::new_with(py, count, |bytes| {
            for (to, value) in bytes.chunks_exact_mut(size_of::<f32>()).zip(parameter.values.iter())
            {
                to.copy_from_slice(&value.to_ne_bytes());
            }
            Ok(())
        })?;
        let flat = from_buffer.call1((bytes, &dtype))?;
        let shape = parameter.shape.clone();
        arrays.set_item(&**name, flat.call_method1("reshape", (shape,))?)?;
    }
    Ok(arrays)
}

/// Returns the parameters of a dictionary of `(shape, bytes of f32)` by name.
///
/// # Errors
/// Returns an error if a shape does not fit its bytes.
pub fn from_arrays(arrays: &Bound<'_, PyDict>) -> PyResult<ParameterSet> {
    let mut set = ParameterSet::new();
    for (name, array) in arrays.iter() {
        let name: String = name.extract()?;
        let (shape, bytes): (Vec<usize>, PyBackedBytes) = array.extract()?;
        let values: Arc<[f32]> = bytes
            .chunks_exact(size_of::<f32>())
            .map(|bytes| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        if values.len() != shape.iter().product::<usize>() {
            return Err(PyValueError::new_err(format!("`{name}` does not fill its shape")));
        }
        set.insert(name.as_str(), Parameter { shape, values });
    }
    Ok(set)
}
