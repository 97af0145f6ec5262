//! `[run]`: how the cells of a study are run. Nothing here changes a result.

use std::time::Duration;

use clap::ValueEnum;

use super::selection::Shard;
use crate::scenario::reader::{Choice, Param, TableReader};

/// How cells are run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSection {
    /// Processes at once; `None`: as many as there are cores.
    pub jobs: Option<u32>,
    pub order: Order,
    pub on_error: OnError,
    pub limit: Limit,
    /// Keep the features of frozen backbones in a folder of the study, for all cells.
    pub share_features: bool,
    /// Train every slot of a cell alone first, as `fedcast run --direct` does, where tasks are of a client's own.
    pub direct: bool,
    /// Which part of the cells this process runs.
    pub shard: Option<ShardChoice>,
}

/// Which cells come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Order {
    /// Those with the fewest planned sample passes.
    CheapFirst,
    /// As the axes are written, the last one changing fastest.
    AsWritten,
}

/// What happens when a cell fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OnError {
    /// The others are run all the same.
    Continue,
    /// Cells that run are finished, and no more are begun.
    Stop,
}

/// When a study stops by itself, resumable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After so long.
    pub wall: Option<Duration>,
    /// When its directory is so large, in bytes.
    pub disk: Option<u64>,
}

/// Where the shard is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// In SLURM_ARRAY_TASK_ID and its neighbours.
    Environment,
    /// Here.
    Fixed(Shard),
}

/// The one word that `jobs` may be.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum JobsWord {
    /// One per core; or a number.
    Auto,
}

impl RunSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> RunSection {
        let doc = "processes at once; each has cores / jobs workers";
        let jobs = match table.given_string("jobs") || !table.given("jobs") {
            true => {
                let JobsWord::Auto = table.get(&Param::new("jobs", JobsWord::Auto, doc));
                None
            }
            false => {
                Some(table.get(&Param::<u32>::new("jobs", 1, doc).at_least(1.0).at_most(1024.0)))
            }
        };
        let order = table.get(&Param::new("order", Order::CheapFirst, "which cells come first"));
        let on_error = "what happens when a cell fails";
        let on_error = table.get(&Param::new("on_error", OnError::Continue, on_error));
        let limit = table.table("limit", Limit::read);
        let share = "keep features of frozen backbones in a folder of the study";
        let share_features = table.get(&Param::new("share_features", false, share));
        let direct = "train every slot alone first, for forward transfer";
        let direct = table.get(&Param::new("direct", false, direct));
        let shard = Param::<String>::unset("shard", "\"env\" (SLURM), or k/n");
        let shard = table.optional(&shard).and_then(|word| match ShardChoice::parse(&word) {
            Ok(choice) => Some(choice),
            Err(why) => {
                let help = "write \"env\", or a part such as \"1/4\"";
                table.reject("shard", &why, "no such part", help);
                None
            }
        });
        RunSection { jobs, order, on_error, limit, share_features, direct, shard }
    }
}

impl Limit {
    fn read(table: &mut TableReader<'_>) -> Limit {
        let mut of = |name, doc| Some((name, table.optional(&Param::<String>::unset(name, doc))?));
        let wall = of("wall", "wall time, such as \"2h\" or \"90m\"");
        let disk = of("disk", "size of the study's directory, such as \"20GB\"");
        let wall = wall.and_then(|(name, text)| {
            let read = text.parse::<jiff::SignedDuration>().ok();
            let read = read.and_then(|time| Duration::try_from(time).ok()).filter(|t| !t.is_zero());
            if read.is_none() {
                let message = format!("`{text}` is not a time");
                table.reject(
                    name,
                    &message,
                    "not a time",
                    "write it as \"2h\", \"90m\" or \"45s\"",
                );
            }
            read
        });
        let disk = disk.and_then(|(name, text)| {
            let read = bytes(&text);
            if read.is_none() {
                let message = format!("`{text}` is not a size");
                table.reject(name, &message, "not a size", "write it as \"20GB\" or \"500MB\"");
            }
            read
        });
        Limit { wall, disk }
    }
}

impl ShardChoice {
    /// `env`, or `k/n`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<ShardChoice, String> {
        match text {
            "env" => Ok(ShardChoice::Environment),
            text => Shard::parse(text).map(ShardChoice::Fixed),
        }
    }
}

/// `20GB` and its like, in powers of 1000.
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
