//! `backbone.part`: which of several sets of weights in a file is read.

use crate::scenario::reader::{Param, TableReader};

/// Reads the key; there are no parts where nothing is read from a file.
pub(super) fn read(table: &mut TableReader<'_>, from_file: bool) -> Option<String> {
    let doc = "which of several sets of weights in the file, such as `state_dict_ema`; \
               else the averaged one";
    let part: Option<String> = table.optional(&Param::unset("part", doc));
    if !from_file && table.given("part") {
        table.reject(
            "part",
            "no weights are read from a file here",
            "nothing to choose from",
            "remove this line, or set `backbone.weights` to a file",
        );
    }
    part
}
