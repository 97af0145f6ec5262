//! `backbone.part`: set of weights to read from a file with several.

use crate::scenario::reader::{Param, TableReader};

/// Reads the key; reports it if no weights are read from a file.
pub(super) fn read(table: &mut TableReader<'_>, from_file: bool) -> Option<String> {
    let doc = "set of weights to read from a file with several, such as `state_dict_ema`; default: the averaged one";
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
