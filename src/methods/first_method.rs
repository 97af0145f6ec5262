//! Keys of `[method.first]`: the method that adapts the features which another one learns upon.

use crate::scenario::reader::Param;

/// In `[method.first]`: features as the backbone has them.
pub(super) const NO_FIRST: &str = "none";

/// What adapts the features of a kind of backbone in the first task, unless a scenario says otherwise:
/// whatever comes from scratch has to be trained.
fn first_on(backbone: &str) -> &'static str {
    match backbone {
        "vit" => "adapter",
        "resnet18" => "fedavg",
        _ => NO_FIRST,
    }
}

/// Names the first of two methods, in `[method.first]`.
pub(super) fn first_name(backbone: &str) -> Param<String> {
    let doc = "the method of the first task, with its own keys beside this one; the features it leaves \
               never change again. By default adapter on a transformer, fedavg on a residual network; \
               `none`: the backbone's";
    let name = Param::new("name", first_on(backbone).to_owned(), doc);
    name.source("STSA: adapters, or the whole of a ResNet")
}

/// Rounds of the first method.
pub(super) fn first_rounds() -> Param<u32> {
    Param::unset("rounds", "its rounds, where not `federation.rounds`").at_least(1.0)
}
