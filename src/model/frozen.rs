//! How much of a model is the backbone as it was loaded, and so needs computing once per sample.

/// The part of a model, from the pixels on, that nothing adapts and nothing trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrozenPart {
    /// None of it, or nothing that is worth keeping.
    Nothing,
    /// The blocks of a transformer below this one; at least 1.
    Below(usize),
    /// Everything up to the features.
    Whole,
}

impl FrozenPart {
    /// For caches: `features`, `block-3`.
    pub fn name(self) -> String {
        match self {
            FrozenPart::Nothing => "nothing".to_owned(),
            FrozenPart::Below(block) => format!("block-{block}"),
            FrozenPart::Whole => "features".to_owned(),
        }
    }
}
