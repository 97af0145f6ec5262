//! Owners of samples listed in a file.

use std::path::Path;

use crate::data::{DataError, Dataset, Split};
use crate::scenario::{OwnedSample, PartitionKind, PartitionSection, Unlisted};

/// Owner number of a sample without an owner.
const NO_OWNER: u32 = u32::MAX;

impl Dataset {
    /// Returns the data with the owners of training samples that the file of `[partition]` lists, if any.
    ///
    /// # Errors
    /// Returns an error if a line names a sample that does not exist, or a sample has no line.
    pub(super) fn held_as_listed(self, section: &PartitionSection) -> Result<Dataset, DataError> {
        let PartitionKind::File { file, unlisted, lines } = &section.kind else { return Ok(self) };
        let owners = owners(&self.train, lines, *unlisted, file)?;
        Ok(Dataset { train: self.train.owned_by(owners)?, ..self })
    }
}

fn owners(
    train: &Split,
    lines: &[OwnedSample],
    unlisted: Unlisted,
    file: &Path,
) -> Result<Vec<u32>, DataError> {
    let mut owners = vec![NO_OWNER; train.len()];
    for OwnedSample { sample, client, line } in lines {
        let owner = owners.get_mut(*sample as usize).ok_or_else(|| DataError::Corrupt {
            path: format!("{}:{line}", file.display()).into(),
            expected: format!("a training sample from 0 to {}", train.len().saturating_sub(1)),
            found: format!("sample {sample}"),
            advice: "Correct the line; samples are counted in the order of the data set".to_owned(),
        })?;
        *owner = *client;
    }
    let missing = owners.iter().filter(|owner| **owner == NO_OWNER).count();
    match owners
        .iter()
        .position(|owner| *owner == NO_OWNER)
        .filter(|_| unlisted == Unlisted::Refuse)
    {
        None => Ok(owners),
        Some(first) => Err(DataError::Corrupt {
            path: file.to_owned(),
            expected: format!("a client for each of {} training samples", train.len()),
            found: format!("none for {missing} of them, the first is sample {first}"),
            advice: "Add lines for them, or leave them out: partition.unlisted = \"drop\""
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split() -> Split {
        Split::from_buffer(vec![0; 4], [1, 1, 1], vec![0, 1, 0, 1], 2).unwrap()
    }

    fn owners_of(lines: &[(u32, u32)], unlisted: Unlisted) -> Result<Vec<u32>, String> {
        let line = |(at, (sample, client)): (usize, &(u32, u32))| OwnedSample {
            sample: *sample,
            client: *client,
            line: at as u32 + 2,
        };
        let lines: Vec<OwnedSample> = lines.iter().enumerate().map(line).collect();
        owners(&split(), &lines, unlisted, Path::new("who.csv")).map_err(|error| error.to_string())
    }

    #[test]
    fn every_sample_has_the_client_of_its_line() {
        let all = [(3, 0), (1, 2), (0, 1), (2, 2)];
        assert_eq!(owners_of(&all, Unlisted::Refuse), Ok(vec![1, 2, 2, 0]));
        assert_eq!(owners_of(&all[..3], Unlisted::Drop), Ok(vec![1, 2, NO_OWNER, 0]));
    }

    #[test]
    fn samples_that_are_not_there_or_not_listed_are_named() {
        let error = owners_of(&[(1, 0), (4, 0)], Unlisted::Drop).unwrap_err();
        assert!(
            error.contains("who.csv:3: expected a training sample from 0 to 3, found sample 4"),
            "{error}"
        );
        let error = owners_of(&[(0, 0), (2, 1)], Unlisted::Refuse).unwrap_err();
        assert!(error.contains("none for 2 of them, the first is sample 1"), "{error}");
    }
}
