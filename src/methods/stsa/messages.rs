//! Messages of STSA: the seed of the random layer in downloads, sums over a client's samples in uploads.

use super::Stsa;
use super::class_sums::ClassSums;
use super::config::{Payload, Variant};
use super::estimate::UnitStatistics;
use super::features::Collected;
use crate::numerics::symmetric::{Symmetric, packed_len};
use crate::policy::{Aggregate, Message, MessageSpec, PolicyError, StalenessRule, TensorSpec};
use crate::wire::{Dtype, Kind, NamedTensor, Section, TensorValues, WireError};

const SEED: &str = "seed";
const GRAM: &str = "gram";
pub(super) const SUMS: &str = "sums";
const COUNTS: &str = "counts";

/// Returns the specification of a download: the seed.
pub(super) fn down() -> MessageSpec {
    let seed = TensorSpec::new(Kind::Settings, SEED, &[], Dtype::U64);
    MessageSpec { extra: vec![seed], ..MessageSpec::default() }
}

/// Writes the download of a seed.
pub(super) fn of_seed(seed: u64) -> Result<Message, WireError> {
    let seed = NamedTensor::new(SEED, [], TensorValues::U64([seed].into()))?;
    Ok(Message { extra: vec![Section::new(Kind::Settings, vec![seed])], ..Message::default() })
}

/// Reads the seed of a download; inverts [`of_seed`].
pub(super) fn seed_of(download: &Message) -> Result<u64, WireError> {
    Ok(download.tensor(Kind::Settings, SEED)?.shaped(&[])?.as_u64()?[0])
}

impl Stsa {
    /// Returns the specification of an upload for a task with this number of classes.
    ///
    /// STSA's matrix and sums are added up; STSA-E's sums and counts are a unit of its estimate and stay separate.
    pub(super) fn statistics(&self, classes: usize) -> MessageSpec {
        let dtype = match self.config.payload {
            Payload::F32 => Dtype::F32,
            Payload::F64 => Dtype::F64,
        };
        let width = self.width();
        let place = |name, shape: &[usize]| TensorSpec::new(Kind::Statistics, name, shape, dtype);
        let gram = |shape: &[usize]| place(GRAM, shape).symmetric().summed(StalenessRule::Refuse);
        let sums = place(SUMS, &[classes, width]);
        let extra = match self.config.variant {
            Variant::Exact { symmetric: false } => {
                vec![gram(&[width, width]), sums.summed(StalenessRule::Refuse)]
            }
            Variant::Exact { symmetric: true } => {
                vec![gram(&[packed_len(width)]), sums.summed(StalenessRule::Refuse)]
            }
            Variant::Estimated(_) => vec![sums.kept(), place(COUNTS, &[classes]).kept()],
        };
        MessageSpec { extra, ..MessageSpec::default() }
    }
}

/// Writes the upload that a specification describes.
pub(super) fn upload(layout: &MessageSpec, found: &Collected) -> Result<Message, WireError> {
    let Collected { unit, gram } = found;
    let tensor = |place: &TensorSpec| match (&*place.name, gram) {
        (GRAM, Some(gram)) => place.tensor(gram.packed()),
        (COUNTS, _) => place.tensor(&unit.counts),
        _ => place.tensor(&unit.sums.values),
    };
    let tensors = layout.extra.iter().map(tensor).collect::<Result<_, _>>()?;
    Ok(Message { extra: vec![Section::new(Kind::Statistics, tensors)], ..Message::default() })
}

/// Returns the sums `G` and `P^T` of a task from STSA's aggregate.
pub(super) fn sums_of(
    aggregate: &Aggregate,
    width: usize,
) -> Result<(Symmetric, ClassSums), PolicyError> {
    let gram = Symmetric::from_packed(width, aggregate.sum(GRAM)?.to_vec());
    let gram = gram.ok_or_else(|| WireError::Malformed("`gram` is no triangle".into()))?;
    Ok((gram, ClassSums { width, values: aggregate.sum(SUMS)?.to_vec() }))
}

/// Reads the unit in an upload of STSA-E.
pub(super) fn unit_of(update: &Message) -> Result<UnitStatistics, WireError> {
    let counts = update.tensor(Kind::Statistics, COUNTS)?.numbers();
    let sums = update.tensor(Kind::Statistics, SUMS)?;
    let [classes, width] = *sums.shape() else {
        return Err(WireError::Malformed("`sums` is no matrix".into()));
    };
    if classes != counts.len() {
        return Err(WireError::Malformed(format!("{classes} sums and {} counts", counts.len())));
    }
    Ok(UnitStatistics { sums: ClassSums { width, values: sums.numbers() }, counts })
}
