//! `fedcast` under `mpirun`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A small federation whose rounds take a moment.
pub const SMALL: &str = r#"
schema = 2
name = "small"
data = { source = "digits", subset = 12 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid", min_samples = 2 }
method = { name = "hgp", prompt_len = 4 }
federation = { clients = 6, rounds = 2 }
client = { epochs = 1, batch_size = 8 }
devices = { workers = 1 }
"#;

/// `mpirun -n RANKS fedcast ARGUMENTS` in a folder.
pub fn mpirun(ranks: u32, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command
        .args(["-n", &ranks.to_string(), "--bind-to", "none"])
        .args(ft())
        .arg(env!("CARGO_BIN_EXE_fedcast"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("FEDCAST_CACHE", folder.join("caches"))
        .env("FEDCAST_OFFLINE", "1")
        // More processes than cores, perhaps as root: Open MPI 4, then 5. MPICH allows both.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command
}

/// Returns true if the installed MPI reports lost ranks.
pub fn reports_losses() -> bool {
    let Ok(Output { stdout, .. }) = Command::new("ompi_info").output() else { return false };
    let text = String::from_utf8_lossy(&stdout);
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Open MPI: "));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 5) && text.contains("FT MPI support: yes")
}

fn ft() -> &'static [&'static str] {
    if reports_losses() { &["--with-ft", "ulfm"] } else { &[] }
}

/// Result of a launch.
pub struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn run_command(command: &mut Command) -> CommandOutput {
    let ran = command.output();
    let Output { status, stdout, stderr } = ran.expect("mpirun is needed for these tests");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    CommandOutput { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// Runs the program as one process.
pub fn alone(folder: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedcast"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1");
    run_command(command.env("FEDCAST_CACHE", folder.join("caches")).env("FEDCAST_OFFLINE", "1"))
}

/// A folder with a scenario in it.
pub fn folder_with(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), scenario).expect("is written");
    folder
}

/// A document of a run.
pub fn document(run: PathBuf) -> Value {
    let text = fs::read_to_string(&run).unwrap_or_else(|e| panic!("{}: {e}", run.display()));
    serde_json::from_str(&text).expect("is JSON")
}

/// Waits until something holds, for a minute at most.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Process ids of the ranks of the job in a folder, by rank.
pub fn ranks_in(folder: &Path) -> Vec<(u32, u32)> {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let rank = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let here = fs::read_link(entry.path().join("cwd")).ok()? == folder.canonicalize().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let mut words = environment.split(|byte| *byte == 0);
        let rank = words.find_map(|word| {
            let word = std::str::from_utf8(word).ok()?;
            let rank = word.strip_prefix("OMPI_COMM_WORLD_RANK=");
            rank.or_else(|| word.strip_prefix("PMI_RANK="))?.parse::<u32>().ok()
        });
        here.then_some((rank?, id))
    };
    let mut found: Vec<(u32, u32)> = processes.filter_map(rank).collect();
    found.sort_unstable();
    found
}

/// `kill -9`.
pub fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(killed.expect("kill is there").success());
}
