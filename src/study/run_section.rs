//! `[run]`: execution of the cells of a study. Nothing here changes a result.

use std::time::Duration;

use clap::ValueEnum;

use super::selection::Shard;
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// Options of executing the cells of a study.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct RunSection {
    /// Number of simultaneous processes; each has cores / jobs workers.
    ///
    /// `None` means one per core.
    #[key(read = read_jobs(table, doc))]
    pub jobs: Option<u32>,
    /// Order in which cells run.
    #[key(default = Order::CheapFirst)]
    pub order: Order,
    /// Rule for the other cells when a cell fails.
    #[key(default = OnError::Continue)]
    pub on_error: OnError,
    /// Limits at which the study stops.
    #[key(table)]
    pub limit: Limit,
    /// True to keep features of frozen backbones in a folder of the study, shared by all cells.
    #[key(default = false)]
    pub share_features: bool,
    /// True to train every client task alone first, as the reference of forward transfer.
    ///
    /// Equivalent to `fedcast run --single-task`; for scenarios with client tasks.
    #[key(default = false)]
    pub single_task: bool,
    /// Part of the cells that this process runs: "env" (SLURM job array) or "k/n".
    #[key(read = ShardChoice::read(table, doc))]
    pub shard: Option<ShardChoice>,
}

/// Order in which cells run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Order {
    /// Cells with the fewest planned sample passes first.
    CheapFirst,
    /// In the order of the axes, the last one changing fastest.
    AsWritten,
}

/// Rule for the other cells when a cell fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OnError {
    /// The other cells still run.
    Continue,
    /// Running cells finish, and no other cells start.
    Stop,
}

/// Limits at which a study stops by itself and can be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Keys)]
pub struct Limit {
    /// Wall time, such as "2h" or "90m".
    #[key(read = read_wall(table, doc))]
    pub wall: Option<Duration>,
    /// Size of the study's directory, such as "20GB".
    #[key(read = read_disk(table, doc))]
    pub disk: Option<u64>,
}

/// Source of the shard that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// SLURM_ARRAY_TASK_ID and related variables.
    Environment,
    /// This value.
    Fixed(Shard),
}

/// Value of `jobs` that is not a number.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum JobsWord {
    /// One per core; or a number.
    Auto,
}

fn read_jobs(table: &mut TableReader<'_>, doc: &'static str) -> Option<u32> {
    if table.given_string("jobs") || !table.given("jobs") {
        let JobsWord::Auto = table.get(&Param::new("jobs", JobsWord::Auto, doc));
        return None;
    }
    table.optional(&Param::unset("jobs", doc).at_least(1.0).at_most(1024.0))
}

fn read_wall(table: &mut TableReader<'_>, doc: &'static str) -> Option<Duration> {
    let text: String = table.optional(&Param::unset("wall", doc))?;
    let read = text.parse::<jiff::SignedDuration>().ok();
    let read = read.and_then(|time| Duration::try_from(time).ok()).filter(|time| !time.is_zero());
    if read.is_none() {
        let help = "write it as \"2h\", \"90m\" or \"45s\"";
        table.reject("wall", &format!("`{text}` is not a time"), "not a time", help);
    }
    read
}

fn read_disk(table: &mut TableReader<'_>, doc: &'static str) -> Option<u64> {
    let text: String = table.optional(&Param::unset("disk", doc))?;
    let read = bytes(&text);
    if read.is_none() {
        let help = "write it as \"20GB\" or \"500MB\"";
        table.reject("disk", &format!("`{text}` is not a size"), "not a size", help);
    }
    read
}

impl ShardChoice {
    fn read(table: &mut TableReader<'_>, doc: &'static str) -> Option<ShardChoice> {
        let word: String = table.optional(&Param::unset("shard", doc))?;
        match ShardChoice::parse(&word) {
            Ok(choice) => Some(choice),
            Err(why) => {
                let help = "write \"env\", or a part such as \"1/4\"";
                table.reject("shard", &why, "no such part", help);
                None
            }
        }
    }

    /// Parses `env` or `k/n`.
    ///
    /// # Errors
    /// Fails if the text is neither.
    pub fn parse(text: &str) -> Result<ShardChoice, String> {
        match text {
            "env" => Ok(ShardChoice::Environment),
            text => Shard::parse(text).map(ShardChoice::Fixed),
        }
    }
}

/// Parses a size such as `20GB`, in powers of 1000, to bytes.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "B" => 1e0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::read_text;

    #[test]
    fn limits_are_times_and_sizes() {
        let read = |text: &str| read_text(text, "example", Limit::read);
        let limit = read("wall = \"1h 30m\"\ndisk = \"1.5 GB\"").unwrap();
        assert_eq!(limit.wall, Some(Duration::from_secs(5400)));
        assert_eq!(limit.disk, Some(1_500_000_000));
        for (text, hint) in [
            ("wall = \"soon\"", "not a time"),
            ("wall = \"-2h\"", "not a time"),
            ("disk = \"20\"", "not a size"),
            ("disk = \"20 apples\"", "not a size"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(hint), "{text}");
        }
    }

    #[test]
    fn defaults_and_words() {
        let read = |text: &str| read_text(text, "example", RunSection::read);
        let section = read("").unwrap();
        assert_eq!((section.jobs, section.order), (None, Order::CheapFirst));
        let section = read("jobs = 3\norder = \"as-written\"\nshard = \"env\"").unwrap();
        assert_eq!((section.jobs, section.order), (Some(3), Order::AsWritten));
        assert_eq!(section.shard, Some(ShardChoice::Environment));
        assert!(
            read("order = \"cheap_first\"").unwrap_err().to_string().contains("\"cheap-first\"")
        );
        assert!(read("shard = \"5/4\"").unwrap_err().to_string().contains("5/4"));
    }
}
