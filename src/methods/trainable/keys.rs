//! Keys of [`Trainable`](super::Trainable) that a method has, and defaults that follow its source.

use crate::methods::HeadForm;
use crate::methods::averaging::{ClientWeighting, OldLogits};
use crate::scenario::reader::{Param, Readable, TableReader};

/// Setting that a scenario may choose, or that the method fixes.
#[derive(Clone, Copy, Debug)]
pub enum Setting<T> {
    /// A key.
    Key {
        /// Value where the key is not written.
        default: T,
        /// Origin of the default.
        source: Option<&'static str>,
    },
    /// No key: the method always has this value.
    Fixed(T),
}

impl<T: Readable + Clone> Setting<T> {
    /// Reads the key of this name, if it is one.
    pub fn read(self, table: &mut TableReader<'_>, name: &'static str, doc: &'static str) -> T {
        let (param, source) = match self {
            Setting::Fixed(value) => return value,
            Setting::Key { default, source } => (Param::new(name, default, doc), source),
        };
        match source {
            Some(source) => table.get(&param.source(source)),
            None => table.get(&param),
        }
    }
}

/// Keys that a method on FedAvg has of those of [`Trainable`](super::Trainable), where methods differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainableKeys {
    /// `client_weighting`.
    pub client_weighting: Setting<ClientWeighting>,
    /// `old_logits`.
    pub old_logits: Setting<OldLogits>,
    /// `head_form`.
    pub head_form: Setting<HeadForm>,
    /// True if `batch_norm` and `dropout` are keys.
    pub module: bool,
}

impl TrainableKeys {
    /// FedAvg's: all of them.
    pub const FEDAVG: TrainableKeys = TrainableKeys {
        client_weighting: Setting::Key {
            default: ClientWeighting::BySamples,
            source: Some("McMahan et al., algorithm 1"),
        },
        old_logits: Setting::Key {
            default: OldLogits::Mask,
            source: Some("HGP; HePCo's FedAvg-FT has keep"),
        },
        head_form: Setting::Key { default: HeadForm::Fixed, source: None },
        module: true,
    };

    /// Keys of a site that trains alone: nothing is averaged or sent.
    pub const ALONE: TrainableKeys = TrainableKeys {
        client_weighting: Setting::Fixed(ClientWeighting::BySamples),
        old_logits: Setting::Fixed(OldLogits::Mask),
        head_form: Setting::Fixed(HeadForm::Fixed),
        module: false,
    };

    /// Uses plain means of clients by default, as this source has it.
    pub const fn uniform(self, source: &'static str) -> TrainableKeys {
        let client_weighting =
            Setting::Key { default: ClientWeighting::Uniform, source: Some(source) };
        TrainableKeys { client_weighting, ..self }
    }

    /// Always uses plain means of clients.
    pub const fn always_uniform(self) -> TrainableKeys {
        TrainableKeys { client_weighting: Setting::Fixed(ClientWeighting::Uniform), ..self }
    }

    /// Sends head rows of the classes seen so far by default, as this source has it.
    pub const fn growing(self, source: &'static str) -> TrainableKeys {
        let head_form = Setting::Key { default: HeadForm::Growing, source: Some(source) };
        TrainableKeys { head_form, ..self }
    }

    /// Makes all classes seen always compete in the loss.
    pub const fn over_all_seen(self) -> TrainableKeys {
        TrainableKeys { old_logits: Setting::Fixed(OldLogits::Keep), ..self }
    }
}
