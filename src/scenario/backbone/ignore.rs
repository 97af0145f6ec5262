//! `backbone.ignore`: tensors of a file that the network does not have and that the user knows to be harmless.

use crate::scenario::reader::{Param, TableReader};

/// Reads the patterns; reports them if no weights are read from a file.
pub(super) fn read(table: &mut TableReader<'_>, from_file: bool) -> Vec<String> {
    let doc = "patterns of tensors in the file that may be left over; `*` matches any text";
    let patterns: Vec<String> = table.get(&Param::new("ignore", Vec::new(), doc));
    if !from_file && table.given("ignore") {
        table.reject(
            "ignore",
            "no weights are read from a file here",
            "nothing to ignore",
            "remove this line, or set `backbone.weights` to a file",
        );
    }
    patterns
}
