//! Keys of [`Trainable`](super::Trainable) that a method offers, with defaults of its source.

use crate::methods::HeadForm;
use crate::methods::averaging::{ClientWeighting, OldLogits};
use crate::scenario::reader::{Param, Readable, TableReader};

/// Setting that a scenario may choose, or that the method fixes.
#[derive(Clone, Copy, Debug)]
pub enum Setting<T> {
    /// Key of the `[method]` table.
    Key {
        /// Value if the key is not given.
        default: T,
        /// Source of the default.
        source: Option<&'static str>,
    },
    /// No key: the method always has this value.
    Fixed(T),
}

impl<T: Readable + Clone> Setting<T> {
    /// Reads the setting from a table; a fixed value reads no key.
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

/// Keys of [`Trainable`](super::Trainable) that differ between the methods that build on FedAvg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainableKeys {
    /// Setting `client_weighting`: weight of a client in the mean.
    pub client_weighting: Setting<ClientWeighting>,
    /// Setting `old_logits`: use of the logits of earlier tasks in the loss.
    pub old_logits: Setting<OldLogits>,
    /// Setting `head_form`: rows of the head in messages.
    pub head_form: Setting<HeadForm>,
    /// True if `batch_norm` and `dropout` are keys.
    pub module: bool,
}

impl TrainableKeys {
    /// FedAvg's keys: all of them.
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
