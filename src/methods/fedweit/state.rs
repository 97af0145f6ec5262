//! State of a client: its base, the parts of its current task, and those of all earlier tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::layers::WeitShape;
use super::terms::LayerValues;
use crate::model::{Parameter, ParameterSet};
use crate::policy::ClientState;
use crate::wire::Saved;

/// Name of the set of the base.
///
/// The next names are those of the first base received, masks, adaptive parts, attention, other parameters, and the
/// weighted sum over the knowledge base.
pub(super) const BASE: &str = "base";
pub(super) const INITIAL: &str = "initial";
pub(super) const MASK: &str = "mask";
pub(super) const ADAPTIVE: &str = "adaptive";
pub(super) const ATTENTION: &str = "attention";
pub(super) const LOCAL: &str = "local";
pub(super) const TRANSFER: &str = "transfer";
/// Name of the set of an earlier task's weights at the start of the current one.
pub(super) const START: &str = "start";

/// State of a FedWEIT client.
#[derive(Clone, Debug, PartialEq, Saved)]
pub struct WeitState {
    /// First head row of the current task plus 1; 0 before the first round.
    current: u64,
    /// Number of rounds since the best validation loss, or since the rate was lowered.
    pub(super) waited: u64,
    /// Lowest validation loss so far in the task.
    pub(super) lowest: f64,
    /// Factor on the learning rate, which `lr_divisor` lowers.
    pub(super) factor: f64,
    sets: BTreeMap<String, ParameterSet>,
}

impl Default for WeitState {
    fn default() -> WeitState {
        let sets = BTreeMap::new();
        WeitState { current: 0, waited: 0, lowest: f64::INFINITY, factor: 1.0, sets }
    }
}

impl ClientState for WeitState {}

impl WeitState {
    /// Returns the set of a name, empty if there is none.
    pub fn set(&self, name: &str) -> ParameterSet {
        self.sets.get(name).cloned().unwrap_or_default()
    }

    /// Returns true if there is a set of this name.
    pub fn has(&self, name: &str) -> bool {
        self.sets.contains_key(name)
    }

    /// Replaces a set.
    pub fn put(&mut self, name: impl Into<String>, set: ParameterSet) {
        self.sets.insert(name.into(), set);
    }

    /// Returns true if the task whose head rows begin here is the current one.
    pub fn works_on(&self, first_row: usize) -> bool {
        self.current == first_row as u64 + 1
    }

    /// Returns the first head rows of earlier tasks, ascending.
    pub fn past(&self) -> Vec<usize> {
        let of = |name: &String| {
            let (row, part) = name.strip_prefix("past.")?.split_once('.')?;
            (part == MASK).then(|| row.parse().ok())?
        };
        self.sets.keys().filter_map(of).collect::<BTreeSet<usize>>().into_iter().collect()
    }

    /// Returns the name of the set of a part of an earlier task.
    pub fn of_past(first_row: usize, part: &str) -> String {
        format!("past.{first_row:010}.{part}")
    }

    /// Takes over a received base; where it is zero, the client's own values stay.
    pub fn take_base(&mut self, received: &ParameterSet) {
        let taken = match self.sets.get(BASE) {
            None => {
                self.put(INITIAL, received.clone());
                received.clone()
            }
            Some(own) => taken_over(own, received),
        };
        self.put(BASE, taken);
    }

    /// Makes the current task an earlier one, and the task that begins at `first_row` the current one.
    pub fn begin(&mut self, first_row: usize) {
        if let Some(before) = self.current.checked_sub(1) {
            for part in [MASK, ADAPTIVE, LOCAL, TRANSFER] {
                if let Some(set) = self.sets.remove(part) {
                    self.put(WeitState::of_past(before as usize, part), set);
                }
            }
            self.sets.remove(ATTENTION);
        }
        *self = WeitState {
            current: first_row as u64 + 1,
            sets: std::mem::take(&mut self.sets),
            ..WeitState::default()
        };
    }

    /// Stores the weights of earlier tasks, composed with `base`, as those at the start of the task.
    pub fn mark_starts(&mut self, shape: &WeitShape, base: &ParameterSet) {
        for row in self.past() {
            let [mask, adaptive] =
                [MASK, ADAPTIVE].map(|part| self.set(&WeitState::of_past(row, part)));
            let start = composed(shape, base, &mask, &adaptive, None);
            self.put(WeitState::of_past(row, START), start);
        }
    }
}

/// Returns the received values, and the client's own where those are zero.
pub(super) fn taken_over(own: &ParameterSet, received: &ParameterSet) -> ParameterSet {
    own.zipped(received, |own, received| if received == 0.0 { own } else { received })
}

/// Returns the composed weights of all layers, with `transfer` as the sum over the knowledge base.
pub(super) fn composed(
    shape: &WeitShape,
    base: &ParameterSet,
    mask: &ParameterSet,
    adaptive: &ParameterSet,
    transfer: Option<&ParameterSet>,
) -> ParameterSet {
    let weight = |layer: &super::SplitLayer| {
        let values = |set: &ParameterSet| set.get(&layer.name).map(|found| found.values.clone());
        let (base, mask, adaptive) = (values(base)?, values(mask)?, values(adaptive)?);
        let lent = transfer.and_then(values);
        let knowledge = lent.iter().map(|lent| (1.0, &lent[..])).collect();
        let layer_values = LayerValues { base: &base, mask: &mask, adaptive: &adaptive, knowledge };
        let values = layer_values.compose().into();
        Some((layer.name.clone(), Parameter { shape: layer.shape.clone(), values }))
    };
    shape.layers.iter().filter_map(weight).collect()
}

/// Returns `sum_i alpha_i K_i` of every layer; `attention` has one value per entry `K_i`.
pub(super) fn transfer_of(
    shape: &WeitShape,
    attention: &ParameterSet,
    entries: &[ParameterSet],
) -> ParameterSet {
    let sum = |layer: &super::SplitLayer| {
        let mut sum = vec![0f64; layer.numbers()];
        let alphas = attention.get(&layer.name).map(|found| found.values.clone());
        for (alpha, entry) in alphas.iter().flat_map(|alphas| alphas.iter()).zip(entries) {
            let Some(entry) = entry.get(&layer.name) else { continue };
            let pairs = sum.iter_mut().zip(entry.values.iter());
            pairs.for_each(|(sum, value)| *sum += f64::from(*alpha) * f64::from(*value));
        }
        let values = sum.into_iter().map(|value| value as f32).collect();
        (layer.name.clone(), Parameter { shape: layer.shape.clone(), values })
    };
    shape.layers.iter().map(sum).collect()
}
