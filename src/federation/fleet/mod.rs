//! Ranks: other processes, on other machines perhaps, that compute for the one with the conductor.
//!
//! ```text
//!  rank 0                                                       rank 1, 2, ...
//!  conductor ─▶ queues of the devices ─▶ workers                serve: shelf, members ─▶ workers
//!                       └─▶ porter ─▶ line ═══ parcels ═══ line ─▶ ┘        │
//!               workers ◀─ answers ──┘  ◀══════════════════════════ answers ┘
//! ```
//! Two kinds of jobs can travel: the training of a pack and the test of a block. Both are pure, so neither who does them
//! nor in what order answers come back changes anything but waiting. Faults, links, privacy, codecs and accounts are
//! applied at rank 0 to what comes back, so nothing of this is in any journal, ledger or digest.
//!
//! * A **line** carries parcels; whether through MPI or between threads of this process ([`loopback()`]) nobody else knows.
//! * A **parcel** is an index and frames in the format of [`wire`](crate::wire). An errand names clients, tasks and
//!   samples by number; every rank made the same data, shards and method from the same scenario. What several errands
//!   share (a Down, an asset, a model) goes to a rank once.
//! * The **porter** takes jobs from the queues when some rank has a free place, and puts them back when that rank is lost.
//! * [`serve()`] is what the other ranks do until rank 0 lets them go.

mod errand;
mod line;
mod loopback;
mod parcel;
mod porter;
mod sent;
mod serve;
mod shelf;
mod testing_errand;
mod training_errand;

pub(super) use errand::RemoteJob;
pub use line::{Rank, RankChannel, RankTransport, TransportEvent};
pub use loopback::{InjectedFault, loopback};
pub(super) use porter::{Dispatcher, Queues};
pub use porter::{Loss, RemoteRank, RemoteRanks};
pub use serve::serve;
pub(super) use testing_errand::{RemoteEvaluation, Test};
pub(super) use training_errand::RemoteTraining;
