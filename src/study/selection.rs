//! Selection of cells of a study: `--only` and `--shard`.

use super::axes::pick;
use super::cell::{Cell, Point};
use super::{Axis, Study, StudyError};

/// One of several equal parts of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the part, from 1.
    pub part: usize,
    /// Number of parts.
    pub of: usize,
}

impl Shard {
    /// Parses a part such as `2/8`.
    ///
    /// # Errors
    /// Fails if the text is no such part.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let parts = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((part, of)) if 1 <= part && part <= of => Ok(Shard { part, of }),
            _ => Err(format!("`{text}` is not a part such as 2/8: parts count from 1")),
        }
    }

    /// Returns the part of this task of a SLURM job array; `None` outside of one.
    ///
    /// `variable` looks up an environment variable.
    ///
    /// # Errors
    /// Fails if the variables are no numbers or contradict each other.
    pub fn of_slurm(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Shard>, String> {
        let number = |name: &str| -> Result<Option<usize>, String> {
            let Some(text) = variable(name) else { return Ok(None) };
            text.parse().map(Some).map_err(|_| format!("{name} is `{text}`, not a number"))
        };
        let (Some(id), Some(of)) =
            (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_COUNT")?)
        else {
            return Ok(None);
        };
        let least = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(if id < of { 0 } else { 1 });
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        let part = id.checked_sub(least).map_or(0, |above| above / step + 1);
        if part == 0 || part > of {
            return Err(format!(
                "SLURM_ARRAY_TASK_ID {id} is none of the {of} tasks from {least} in steps of {step}"
            ));
        }
        Ok(Some(Shard { part, of }))
    }

    /// Returns true if a cell belongs to this part.
    ///
    /// Adjacent cells belong to different parts, because they tend to have the same size.
    pub fn has(self, cell: &Cell) -> bool {
        cell.index % self.of == self.part - 1
    }
}

/// Selection of `--only`: cells that match one of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only(Vec<Vec<CellCriterion>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum CellCriterion {
    Arm(super::Pick),
    Seed(u64),
    Label(String),
}

impl Only {
    /// Parses arguments, each a list `axis=arm,axis=arm`.
    ///
    /// `seed=2` and `label=...` select repetitions and extra cells.
    ///
    /// # Errors
    /// Fails if the study has no such axis, arm, seed or label.
    pub fn parse(arguments: &[String], study: &Study) -> Result<Only, StudyError> {
        let all = arguments
            .iter()
            .map(|argument| split(argument).into_iter().map(|part| wanted(part, study)).collect());
        all.collect::<Result<_, _>>().map(Only).map_err(StudyError::Selection)
    }

    /// Returns true if a cell is selected; without arguments all are.
    pub fn has(&self, study: &Study, cell: &Cell) -> bool {
        let fits = |wanted: &CellCriterion| match (wanted, &cell.point) {
            (CellCriterion::Seed(seed), _) => cell.replicate.label == *seed,
            (CellCriterion::Arm(pick), Point::Grid(arms)) => arms[pick.axis] == pick.arm,
            (CellCriterion::Label(label), Point::Extra(index)) => {
                study.extras[*index].label == *label
            }
            _ => false,
        };
        self.0.is_empty() || self.0.iter().any(|all| all.iter().all(fits))
    }
}

/// Splits an argument at commas before a new `name=`, since labels may contain commas.
fn split(argument: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = argument;
    while let Some(comma) = rest.match_indices(',').map(|(at, _)| at).find(|at| {
        let name = rest[at + 1..].split(['=', ',']).next().unwrap_or_default();
        rest[at + 1 + name.len()..].starts_with('=')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    }) {
        parts.push(&rest[..comma]);
        rest = &rest[comma + 1..];
    }
    parts.push(rest);
    parts
}

fn wanted(part: &str, study: &Study) -> Result<CellCriterion, String> {
    let Some((name, value)) = part.split_once('=') else {
        return Err(format!("--only {part}: write axis=arm, such as {}", example(&study.axes)));
    };
    let is_axis = study.axes.iter().any(|axis| axis.name == name);
    match name {
        "seed" => {
            let seeds = || study.replicates.iter().map(|one| one.label);
            let found = seeds().find(|seed| seed.to_string() == value);
            found.map(CellCriterion::Seed).ok_or_else(|| {
                let all: Vec<String> = seeds().map(|seed| seed.to_string()).collect();
                format!("--only {part}: there is no seed {value}, only {}", all.join(", "))
            })
        }
        "label" if !is_axis => {
            let known = study.extras.iter().any(|extra| extra.label == value);
            known
                .then(|| CellCriterion::Label(value.to_owned()))
                .ok_or_else(|| format!("--only {part}: no [[extra]] cell has this label"))
        }
        _ => pick(&study.axes, name, value)
            .map(CellCriterion::Arm)
            .map_err(|(message, help)| format!("--only {part}: {message}; {help}")),
    }
}

fn example(axes: &[Axis]) -> String {
    let first =
        axes.first().and_then(|axis| Some(format!("{}={}", axis.name, axis.arms.first()?.label)));
    first.unwrap_or_else(|| "seed=1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_one() {
        assert_eq!(Shard::parse("2/8"), Ok(Shard { part: 2, of: 8 }));
        for wrong in ["0/8", "9/8", "2", "a/b", "1/0"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slurm_arrays_may_begin_anywhere_and_step() {
        let shard = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> = pairs
                .iter()
                .map(|(n, v)| (format!("SLURM_ARRAY_TASK_{n}"), (*v).to_owned()))
                .collect();
            Shard::of_slurm(|name| {
                pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.clone())
            })
        };
        let part = |part, of| Ok(Some(Shard { part, of }));
        assert_eq!(shard(&[]), Ok(None));
        assert_eq!(shard(&[("ID", "0"), ("COUNT", "4"), ("MIN", "0")]), part(1, 4));
        assert_eq!(shard(&[("ID", "4"), ("COUNT", "4"), ("MIN", "1")]), part(4, 4));
        assert_eq!(
            shard(&[("ID", "14"), ("COUNT", "3"), ("MIN", "10"), ("STEP", "4")]),
            part(2, 3)
        );
        assert_eq!(shard(&[("ID", "4"), ("COUNT", "4")]), part(4, 4));
        assert!(shard(&[("ID", "9"), ("COUNT", "4"), ("MIN", "1")]).is_err());
        assert!(shard(&[("ID", "x"), ("COUNT", "4")]).is_err());
    }

    #[test]
    fn commas_part_conditions_and_not_labels() {
        assert_eq!(split("method=hgp,clients=100"), ["method=hgp", "clients=100"]);
        assert_eq!(split("label=hgp, all clients"), ["label=hgp, all clients"]);
        assert_eq!(split("label=a, b,seed=2"), ["label=a, b", "seed=2"]);
    }
}
