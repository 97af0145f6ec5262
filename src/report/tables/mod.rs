//! The CSV files of a run directory, each a consumer of the journal's entries, so that a
//! replay writes the same files as the run did, byte for byte.

mod bytes;
mod clients;
mod matrix;
mod rounds;

pub use bytes::BytesTable;
pub use clients::ClientsTable;
pub use matrix::MatrixTable;
pub use rounds::RoundsTable;
pub(super) use rounds::micro_accuracy;

#[cfg(test)]
mod tests;
