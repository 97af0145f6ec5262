//! Number of auxiliary samples, and their shards.

use super::dataset::{is_present, whole_class_sizes};
use crate::data::{Auxiliary, AuxiliaryFacts, DataError, Dataset};
use crate::scenario::{AuxiliarySection, DataSection, DataSource, Population, Scenario};

impl AuxiliaryFacts {
    /// Returns the facts of a scenario before a run; `None` if it has no auxiliary samples.
    ///
    /// `auxiliary` is the number of samples set aside from the scenario's own data, if these were listed. A separate
    /// data set is listed here if it is present.
    ///
    /// # Errors
    /// Returns an error if the number of samples or of shards is not known, or if there are fewer samples than shards.
    pub fn from_scenario(
        scenario: &Scenario,
        auxiliary: Option<usize>,
    ) -> Result<Option<AuxiliaryFacts>, DataError> {
        let Some(section) = &scenario.data.auxiliary else { return Ok(None) };
        let samples = match section.as_data(&scenario.data) {
            Some(other)
                if section.samples.is_none()
                    && other.source != DataSource::Digits
                    && is_present(&other) =>
            {
                Some(Dataset::listed(&other)?.train.len())
            }
            None if auxiliary.is_some() => auxiliary,
            _ => nominal_samples(scenario, section),
        };
        let unknown = || {
            DataError::unfit_at(
                "data.auxiliary",
                "the number of auxiliary samples is not known without opening them",
                "set data.auxiliary.samples for plans",
            )
        };
        AuxiliaryFacts::of(scenario, section, samples.ok_or_else(unknown)?).map(Some)
    }

    /// Checks that every shard has a sample, where the number of samples is known without opening the data.
    ///
    /// # Errors
    /// Fails as [`AuxiliaryFacts::of`] does.
    pub fn check(scenario: &Scenario) -> Result<(), DataError> {
        let Some(section) = &scenario.data.auxiliary else { return Ok(()) };
        let known = nominal_samples(scenario, section);
        known.map_or(Ok(()), |samples| AuxiliaryFacts::of(scenario, section, samples).map(drop))
    }

    /// Returns the facts for `samples` auxiliary samples in all.
    ///
    /// # Errors
    /// Returns an error if the number of shards is not known, or if there are fewer samples than shards.
    pub fn of(
        scenario: &Scenario,
        section: &AuxiliarySection,
        samples: usize,
    ) -> Result<AuxiliaryFacts, DataError> {
        let data: DataSection =
            section.as_data(&scenario.data).unwrap_or_else(|| scenario.data.clone());
        let side = data.side().filter(|_| data.is_square() && data.source != DataSource::Play);
        let image = side.map(|side| [data.channels() as usize, side as usize, side as usize]);
        let shards = shards(scenario, section)?;
        Auxiliary::check_shards(samples, shards)?;
        let samples = Auxiliary::samples_of_a_shard(samples, shards);
        Ok(AuxiliaryFacts { samples, image, server: section.server })
    }
}

/// Returns the number of auxiliary samples as far as it is known without opening the data.
fn nominal_samples(scenario: &Scenario, section: &AuxiliarySection) -> Option<usize> {
    match section.as_data(&scenario.data) {
        Some(_) if section.samples.is_some() => section.samples.map(|samples| samples as usize),
        Some(other) => whole_class_sizes(&other).map(|sizes| sizes.iter().sum()),
        None => {
            let of = |sizes: Vec<usize>| sizes.into_iter().map(|size| section.of_class(size));
            whole_class_sizes(&scenario.data).map(|sizes| of(sizes).sum())
        }
    }
}

/// Returns the number of client shards, and whether the server has one in addition.
///
/// # Errors
/// Returns an error if no number of shards is given and clients are new in every round, so that their number is
/// unknown.
pub(crate) fn shards(
    scenario: &Scenario,
    section: &AuxiliarySection,
) -> Result<(usize, bool), DataError> {
    let fixed = scenario.participation.population == Population::Fixed;
    let clients = fixed.then_some(scenario.federation.clients);
    let unsaid = || {
        DataError::unfit_at(
            "data.auxiliary.parts",
            "clients are new in every round, and the number of auxiliary shards is not set",
            "set data.auxiliary.parts",
        )
    };
    let parts = section.parts.or(clients).ok_or_else(unsaid)?;
    Ok((parts as usize, section.server))
}
