//! The two rules of SCAFFOLD by which a client renews its variate.

use clap::ValueEnum;

use crate::methods::averaging::{Keeper, Requirement};
use crate::scenario::reader::{Choice, TableReader};

/// Rule by which a client renews its control variate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Renewal {
    /// Gradient of its whole loss at the received model.
    ///
    /// It needs a further pass over its samples, and works with any optimizer.
    #[value(name = "I")]
    Gradient,
    /// Mean of the gradients of its steps.
    ///
    /// It needs no further pass, but plain SGD. A weight decay of the optimizer is a part of these variates.
    #[value(name = "II")]
    Way,
}

impl Renewal {
    /// Rejects a rule that the keeper of variates cannot compute.
    pub(super) fn check(self, keeper: Keeper, table: &mut TableReader<'_>) {
        if (self, keeper) == (Renewal::Gradient, Keeper::Server) {
            let message = "a server cannot compute the gradient of a client's loss";
            let help = "set `method.option = \"II\"`, or `method.variates = \"client\"`";
            table.reject("variates", message, "not with option I", help);
        }
    }

    /// Returns the requirements on a scenario: clients that return, and plain SGD where gradients are read from a
    /// change.
    pub(super) fn requirements(self) -> Vec<Requirement> {
        let why = "clients keep a variate from their last round, but fresh clients have none";
        let what = "option II of SCAFFOLD reads gradients";
        let plain = || Requirement::plain_sgd(what, Some("`method.option = \"I\"`"), None);
        let of_option = (self == Renewal::Way).then(plain);
        [Requirement::returning_clients(why, None)].into_iter().chain(of_option).collect()
    }
}
