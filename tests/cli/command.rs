//! Helpers of the tests that run the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tiny scenario.
pub fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/tiny.toml")
}

/// Returns the command `fedcast` with these arguments, in its own empty folder.
pub fn fedcast(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedcast"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("FEDCAST_CACHE", caches(folder))
        // No test may reach the network, nor find files that were fetched.
        .env("HF_HOME", caches(folder).join("huggingface"))
        .env("FEDCAST_OFFLINE", "1")
        .env_remove("FEDCAST_ARITHMETIC")
        .env_remove("FEDCAST_DATA")
        .env_remove("FEDCAST_MIRROR")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_ENDPOINT")
        .env_remove("HF_TOKEN")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("COLUMNS");
    command
}

/// Nothing is written into the repository.
fn caches(folder: &Path) -> PathBuf {
    match folder == Path::new(env!("CARGO_MANIFEST_DIR")) {
        true => Path::new(env!("CARGO_TARGET_TMPDIR")).join("caches"),
        false => folder.join("caches"),
    }
}

/// Result of a command, with texts.
pub struct CommandOutput {
    /// The exit code.
    pub code: i32,
    /// Results.
    pub out: String,
    /// Progress and errors.
    pub err: String,
}

/// Runs to the end.
pub fn run_fedcast(folder: &Path, arguments: &[&str]) -> CommandOutput {
    run_command(&mut fedcast(folder, arguments))
}

/// Runs a command to the end.
pub fn run_command(command: &mut Command) -> CommandOutput {
    let Output { status, stdout, stderr } = command.output().expect("the binary was built");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    CommandOutput { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
}

/// Runs the tiny scenario into `folder/run`.
pub fn tiny_run(folder: &Path, more: &[&str]) -> CommandOutput {
    let tiny = tiny();
    let mut arguments = vec!["run", tiny.to_str().expect("a path in text"), "-q", "-o", "run"];
    arguments.extend(more);
    run_fedcast(folder, &arguments)
}

/// The text of a file.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
