//! Build script of fedcast: names the commit in optimized builds, so that manifests and `fedcast doctor` can say it.
//!
//! Other builds have none: they would compile again after every commit. `FEDCAST_COMMIT` names one in any build.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=FEDCAST_COMMIT");
    println!("cargo::rerun-if-changed=tools/release/commit.rs");
    if std::env::var_os("FEDCAST_COMMIT").is_some()
        || std::env::var("PROFILE").as_deref() != Ok("release")
    {
        return;
    }
    let found = of_package().or_else(of_checkout);
    if let Some(commit) = found {
        println!("cargo::rustc-env=FEDCAST_COMMIT={commit}");
    }
}

/// Returns the commit that `cargo package` noted.
fn of_package() -> Option<String> {
    let noted = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, behind) = noted.split_once("\"sha1\"")?;
    behind.split('"').nth(1).filter(|commit| commit.len() >= 40).map(str::to_owned)
}

/// Returns the commit of a checkout of fedcast, with `-dirty` if tracked files differ from it.
fn of_checkout() -> Option<String> {
    // A copy of fedcast within the repository of another project has that project's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    if Path::new(&top).canonicalize().ok()? != here {
        return None;
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let mut watched = vec![git(&["rev-parse", "--git-path", "HEAD"])?];
    watched.extend(git(&["rev-parse", "--git-path", "packed-refs"]));
    if let Some(branch) = git(&["symbolic-ref", "-q", "HEAD"]) {
        watched.extend(git(&["rev-parse", "--git-path", &branch]));
    }
    watched.extend(["src", "Cargo.toml", "Cargo.lock"].map(str::to_owned));
    for path in watched.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    let dirty = changes.is_some_and(|changes| !changes.is_empty());
    Some(if dirty { format!("{commit}-dirty") } else { commit })
}

/// Returns what a command of git prints, or `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
