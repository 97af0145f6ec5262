//! Keys of `[method.first]`: the method of the first task, on whose frozen features another method trains.

use crate::scenario::reader::Keys;

/// Value of `name` in `[method.first]` for the features of the backbone as it is.
pub(super) const NO_FIRST: &str = "none";

/// Returns the default method of the first task for a kind of backbone.
///
/// A residual network starts from scratch, so it has to be trained; a transformer gets adapters.
fn first_on(backbone: &str) -> &'static str {
    match backbone {
        "vit" => "adapter",
        "resnet18" => "fedavg",
        _ => NO_FIRST,
    }
}

/// Keys of `[method.first]` besides those of the first method.
#[derive(Keys)]
#[keys(given(backbone: &str))]
pub(super) struct FirstKeys {
    /// Method of the first task; the features that it learns stay fixed. "none": those of the backbone.
    ///
    /// Its own keys are in the same table. Default: adapter on a transformer, fedavg on a residual network.
    #[key(
        default = first_on(backbone).to_owned(),
        source = "STSA: adapters, or the whole of a ResNet"
    )]
    pub name: String,
    /// Rounds of the first task; default: `federation.rounds`.
    #[key(at_least = 1.0, when = name != NO_FIRST)]
    pub rounds: Option<u32>,
}
