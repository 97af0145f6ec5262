//! Which C library: its `exp` and `tanh` are part of every bit.

/// Name and version where it tells them.
pub(super) fn c_library() -> String {
    version().unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn version() -> Option<String> {
    #[allow(unsafe_code)]
    // SAFETY: the library answers with a text of its own that lives as long as the process.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(format!("glibc {}", text.to_str().ok()?))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn version() -> Option<String> {
    None
}
