//! Methods with typed messages and parts, until each has become data.

mod additive;
mod averaged;
mod erased;
mod method;
mod part;

pub use additive::Additive;
use additive::UNMARKED;
pub use averaged::Averaged;
pub use erased::erase;
pub use method::{
    ClientPolicy, Learnt, Member, Method, Next, OldMessage, Outcome, ServerPolicy, one_by_one,
    together,
};
pub use part::{Field, Folding, Keep, Part, WeightedDelta};
