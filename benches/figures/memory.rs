//! Peak resident memory of this process, as reported by Linux.

/// Resets the peak, so that it counts from now on.
pub fn forget_peak() {
    // If this is not permitted, the peak is that of the whole process, which is never smaller.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak in MB; `None` if it cannot be read.
pub fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}
