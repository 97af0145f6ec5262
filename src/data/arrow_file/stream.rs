//! Columns of an Arrow stream, which must be complete: it ends with its end marker, and nothing follows.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::ArrayRef;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};

use crate::data::DataError;
use crate::data::foreign::foreign;
use crate::files::{self, FileKind};

/// File that remembers reads beyond its end.
struct EndWatch {
    file: BufReader<File>,
    is_past_end: bool,
}

impl Read for EndWatch {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.is_past_end |= count == 0 && !bytes.is_empty();
        Ok(count)
    }
}

/// Returns the schema of a file whose messages are sound.
pub(super) fn schema(path: &Path) -> Result<SchemaRef, DataError> {
    let schema = reader(path, None)?.schema();
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, "an Arrow file", e))?;
    check_buffers_inside(BufReader::new(file)).map_err(|error| broken(path, error))?;
    Ok(schema)
}

/// Checks that the buffers of every message lie inside its body, which the Arrow reader does not check.
fn check_buffers_inside(mut file: BufReader<File>) -> io::Result<()> {
    while let Some(length) = message_length(&mut file)? {
        let mut head = Vec::new();
        (&mut file).take(length).read_to_end(&mut head)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a damaged message");
        let message = arrow_ipc::root_as_message(&head).map_err(|_| damaged())?;
        let batch = match message.header_as_dictionary_batch() {
            Some(dictionary) => dictionary.data(),
            None => message.header_as_record_batch(),
        };
        let body = u64::try_from(message.bodyLength()).map_err(|_| damaged())?;
        let is_inside = |buffer: &arrow_ipc::Buffer| {
            let part = [buffer.offset(), buffer.length()].map(u64::try_from);
            matches!(part, [Ok(at), Ok(length)] if at.checked_add(length).is_some_and(|end| end <= body))
        };
        let buffers = batch.and_then(|batch| batch.buffers());
        if buffers.is_some_and(|buffers| !buffers.iter().all(is_inside)) {
            return Err(damaged());
        }
        file.seek_relative(i64::try_from(body).map_err(|_| damaged())?)?;
    }
    Ok(())
}

/// Returns the length in bytes of the next message's header.
///
/// `None` at the end of the stream; [`read_columns`] checks that it ends properly.
fn message_length(file: &mut impl Read) -> io::Result<Option<u64>> {
    let mut next = || -> io::Result<Option<[u8; 4]>> {
        let mut word = [0; 4];
        match file.read_exact(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            done => done.map(|()| Some(word)),
        }
    };
    let word = match next()? {
        Some([0xff, 0xff, 0xff, 0xff]) => next()?,
        word => word,
    };
    Ok(word.map(u32::from_le_bytes).filter(|length| *length > 0).map(u64::from))
}

/// Calls `each` with these columns of a file, chunk by chunk in row order.
///
/// # Errors
/// Returns an error if the file is missing, damaged or cut short, or if `each` fails.
pub(super) fn read_columns(
    path: &Path,
    columns: &[usize],
    mut each: impl FnMut(&[ArrayRef]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut reader = reader(path, Some(columns.to_vec()))?;
    // The Arrow reader panics on some damaged headers.
    let damaged = |_| Some(Err(ArrowError::IpcError("a damaged message".to_owned())));
    let mut next = || catch_unwind(AssertUnwindSafe(|| reader.next())).unwrap_or_else(damaged);
    while let Some(batch) = next() {
        each(batch.map_err(|error| broken(path, error))?.columns())?;
    }
    // The Arrow reader accepts a stream without an end marker and ignores bytes behind the marker.
    if reader.get_ref().is_past_end {
        return Err(broken(path, "a file that ends before its mark of the end"));
    }
    let behind = reader.get_mut().read(&mut [0]).map_err(|error| broken(path, error))?;
    match behind {
        0 => Ok(()),
        _ => Err(broken(path, "more behind its mark of the end")),
    }
}

fn reader(path: &Path, columns: Option<Vec<usize>>) -> Result<StreamReader<EndWatch>, DataError> {
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, "an Arrow file", e))?;
    let file = EndWatch { file: BufReader::new(file), is_past_end: false };
    let failed = |error: ArrowError| foreign(path).unwrap_or_else(|| broken(path, error));
    StreamReader::try_new(file, columns).map_err(failed)
}

fn broken(path: &Path, found: impl ToString) -> DataError {
    let expected = "a whole Arrow file as save_to_disk writes it, not packed";
    DataError::advised(path, expected, found.to_string(), "Fetch or save it again")
}
