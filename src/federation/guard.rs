//! Panics of jobs, as messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic becomes its message.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message given")
            .to_string()
    })
}
