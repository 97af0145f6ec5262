//! Ranks: other processes, perhaps on other machines, that compute for the one with the event loop.
//!
//! ```text
//!  rank 0                                                       rank 1, 2, ...
//!  event loop ─▶ queues of the devices ─▶ workers           serve: cache, members ─▶ workers
//!                   └─▶ dispatcher ─▶ channel ═══ packets ═══ channel ─▶ ┘        │
//!               workers ◀─ results ──┘  ◀═══════════════════════════ results ─────┘
//! ```
//! Two kinds of jobs can travel: the training of a pack and the test of a block. Both are pure, so neither the rank
//! that does them nor the order of answers changes anything but waiting. Faults, links, privacy, codecs and accounts
//! are applied at rank 0 to the answers, so nothing of this is in any journal, ledger or digest.
//!
//! * A **line**, a [`RankChannel`], carries packets; only its transport knows whether through MPI or between threads of
//!   this process ([`loopback()`]).
//! * A **packet** is an index and frames in the format of [`wire`](crate::wire). A remote job names clients, tasks and
//!   samples by number; every rank made the same data, shards and method from the same scenario. Parts that several
//!   remote jobs share (a download, an asset, a model) go to a rank once.
//! * The **dispatcher** takes jobs from the queues when some rank has a free place, and puts them back when that rank
//!   is lost.
//! * [`serve()`] is the loop of the other ranks until rank 0 ends it.

mod cache_index;
mod dispatcher;
mod loopback;
mod packet;
mod rank_cache;
mod rank_channel;
mod remote_evaluation;
mod remote_job;
mod remote_training;
mod serve;

pub(super) use dispatcher::{Dispatcher, Queues};
pub use dispatcher::{Loss, RemoteRank, RemoteRanks};
pub use loopback::{InjectedFault, loopback};
pub use rank_channel::{Rank, RankChannel, RankTransport, TransportEvent};
pub(super) use remote_evaluation::{RemoteEvaluation, Test};
pub(super) use remote_job::RemoteJob;
pub(super) use remote_training::RemoteTraining;
pub use serve::serve;
