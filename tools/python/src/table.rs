//! Tables for Python over Arrow's C data interface, without a copy.

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{Field, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Table with named and typed columns.
///
/// It implements Arrow's PyCapsule interface, so that ``pyarrow.table(t)``, ``polars.DataFrame(t)`` and
/// ``pandas.DataFrame.from_arrow(t)`` read it without a copy. The metadata of each field has the ``unit`` and the
/// ``meaning`` that ``fedcast columns`` prints.
///
/// Examples
/// --------
/// >>> run.rounds().to_pandas()[["round", "bytes_up"]].head(1)  # doctest: +SKIP
#[pyclass(frozen, module = "fedcast")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Returns the table of these batches, which have this schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

impl From<RecordBatch> for Table {
    fn from(batch: RecordBatch) -> Table {
        Table::new(batch.schema(), vec![batch])
    }
}

fn unfit(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Table {
    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Units of the columns by name; empty texts for counts, numbers and words.
    #[getter]
    fn units(&self) -> Vec<(String, String)> {
        let unit = |field: &Arc<Field>| {
            let unit = field.metadata().get("unit").cloned().unwrap_or_default();
            (field.name().clone(), unit)
        };
        self.schema.fields().iter().map(unit).collect()
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.num_rows(), self.column_names());
        format!("<fedcast.Table: {rows} rows, columns {}>", columns.join(", "))
    }

    /// Return the table as a ``pandas.DataFrame``.
    ///
    /// Returns
    /// -------
    /// pandas.DataFrame
    ///     One column per column of the table. A column of whole numbers with gaps becomes one of floats, as with
    ///     ``pandas.read_csv``.
    ///
    /// Raises
    /// ------
    /// ImportError
    ///     If pandas or pyarrow is not installed: ``pip install 'fedcast[pandas]'``.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Table::to_arrow(this)?.call_method0("to_pandas")
    }

    /// Return the table as a ``pyarrow.Table`` that shares its memory.
    ///
    /// Returns
    /// -------
    /// pyarrow.Table
    fn to_arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pyarrow")?.call_method1("table", (this,))
    }

    /// Return the table as a ``polars.DataFrame``.
    ///
    /// Returns
    /// -------
    /// polars.DataFrame
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("polars")?.call_method1("DataFrame", (this,))
    }

    /// Return a capsule of the schema (Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(unfit)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Return a capsule of a stream of batches (Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows to ignore it: a consumer then casts.
        let _ = requested_schema;
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let batches = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
