//! Aggregation as uploads arrive: a fixed binary tree over the participants of a round.
//!
//! A worker makes each upload a part; a node of the tree merges as soon as both children are known. The participants
//! fix the set of merges, only their *times* vary, so the bits of the result depend neither on the number of workers
//! nor on their speed. The memory holds the parts that have arrived and not yet met their neighbor: of `n` participants
//! in order at most `log2(n)`, in another order up to a third of `n`. A round that aggregates every upload has them
//! nearly in order, because workers add what they trained, and train in order; packs and clients that keep a state
//! behind slow links are exceptions.
//!
//! Uploads of earlier rounds merge after those of all participants, in the order in which they were
//! [expected](AggregationTree::expect), which is that of virtual time.

use parking_lot::Mutex;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::exchange::Exchange;
use super::guard::guard;
use super::privacy::{MaskedSum, Modulus};
use super::robust::{AggregationRule, Updates};
use crate::policy::{Aggregate, Message, Method, PolicyError, UploadMeta};
use crate::quantity::{ClientId, ParticipantId, Round};
use crate::wire::Body;

/// Result of an aggregation.
#[derive(Default)]
pub struct AggregationResult {
    /// Aggregate of all uploads; `None` if nothing arrived.
    pub part: Option<PartialAggregate>,
    /// Uploads that could not be aggregated, by round and participant.
    pub refused: Vec<RejectedUpload>,
    /// Message of the panic if a merge panicked: the engine or the method is broken.
    pub broken: Option<String>,
}

/// Upload that could not be aggregated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectedUpload {
    /// Round in which its download was sent.
    pub round: Round,
    /// Participant of that round.
    pub participant: ParticipantId,
    /// Sender of the upload.
    pub client: ClientId,
    pub why: String,
}

/// Way in which uploads are aggregated.
#[derive(Clone)]
pub enum AggregationMode {
    /// As the layouts of the method's messages declare.
    Plain(Arc<dyn Method>),
    /// As masked sums in this ring, independent of their content.
    Masked(Modulus),
    /// As the layouts declare, with another rule than the mean.
    Robust(Arc<dyn Method>, AggregationRule),
}

/// Aggregate of some participants, before all are merged.
pub enum PartialAggregate {
    /// Means, sums and uploads that are kept whole.
    Plain(Aggregate),
    /// Masked sum that cannot be read yet.
    Masked(MaskedSum),
    /// Updates that a robust rule will aggregate.
    Robust(Updates),
}

/// An upload as the server got it, with what its participant was sent.
pub struct Upload {
    /// Sender and weight facts of the upload.
    pub meta: UploadMeta,
    /// Download that its participant received.
    pub sent: Arc<Message>,
    /// Body that arrived.
    pub body: Body,
    /// Exchange that defines its expected content; masked uploads share one definition.
    pub exchange: Option<Arc<Exchange>>,
}

impl Upload {
    fn aggregate(self, method: &dyn Method) -> Result<Aggregate, PolicyError> {
        let Upload { meta, sent, body, exchange } = self;
        let exchange = exchange
            .ok_or_else(|| PolicyError::Unsupported("an upload of unknown layout".to_owned()))?;
        let facts = exchange.facts();
        let update = method.transform_upload(&facts, &sent, Message::from_body(&body, &[])?)?;
        let aggregate = exchange.upload.contribution(method, &facts);
        Aggregate::of(&meta, (&sent, &exchange.download.layout), (update, aggregate))
    }
}

impl AggregationMode {
    fn transform_upload(&self, upload: Upload) -> Result<PartialAggregate, PolicyError> {
        Ok(match self {
            AggregationMode::Plain(method) => PartialAggregate::Plain(upload.aggregate(&**method)?),
            AggregationMode::Masked(modulus) => PartialAggregate::Masked(MaskedSum::one(
                *modulus,
                upload.meta.participant.id,
                &upload.body,
            )?),
            AggregationMode::Robust(method, rule) => {
                PartialAggregate::Robust(Updates::one(*rule, upload.aggregate(&**method)?))
            }
        })
    }

    fn merge(&self, earlier: PartialAggregate, later: PartialAggregate) -> PartialAggregate {
        match (self, earlier, later) {
            (_, PartialAggregate::Plain(a), PartialAggregate::Plain(b)) => {
                PartialAggregate::Plain(a.merge(b))
            }
            (_, PartialAggregate::Masked(a), PartialAggregate::Masked(b)) => {
                PartialAggregate::Masked(a.merge(b))
            }
            (
                AggregationMode::Robust(_, rule),
                PartialAggregate::Robust(a),
                PartialAggregate::Robust(b),
            ) => PartialAggregate::Robust(a.merge(*rule, b)),
            _ => unreachable!("the parts of a fold are of one kind"),
        }
    }
}

/// The aggregation of one round, shared by the jobs that feed it.
#[derive(Clone)]
pub struct AggregationTree {
    mode: AggregationMode,
    shared: Arc<Mutex<TreeState>>,
}

struct TreeState {
    /// A heap-shaped tree: the children of `n` are `2n + 1` and `2n + 2`; leaves are last.
    nodes: Vec<AggregationNode>,
    leaves: usize,
    /// Aggregate of all participants once it is known; `Some(None)` if none of them sent anything.
    root: Option<Option<PartialAggregate>>,
    /// Uploads of earlier rounds.
    late: Vec<AggregationNode>,
    /// True if no more late uploads are expected.
    sealed: bool,
    refused: Vec<RejectedUpload>,
    broken: Option<String>,
    done: Option<oneshot::Sender<AggregationResult>>,
}

/// Place reserved for an upload of an earlier round.
#[derive(Clone, Copy, Debug)]
pub struct LatePlace(usize);

enum AggregationNode {
    Unknown,
    Known(Option<PartialAggregate>),
    Taken,
}

impl AggregationTree {
    /// Creates an aggregation for this number of `participants` and the receiver of its result.
    ///
    /// The result arrives when the aggregation is [sealed](AggregationTree::seal), every participant was added or
    /// skipped, and everything expected was added.
    pub fn new(
        mode: AggregationMode,
        participants: usize,
    ) -> (AggregationTree, oneshot::Receiver<AggregationResult>) {
        let (done, result) = oneshot::channel();
        let leaves = participants.max(1).next_power_of_two();
        let nodes = (0..2 * leaves - 1).map(|_| AggregationNode::Unknown).collect();
        let tree = TreeState {
            nodes,
            leaves,
            root: None,
            late: Vec::new(),
            sealed: false,
            refused: Vec::new(),
            broken: None,
            done: Some(done),
        };
        let aggregation = AggregationTree { mode, shared: Arc::new(Mutex::new(tree)) };
        (participants..leaves).for_each(|empty| aggregation.put(empty, None));
        if participants == 0 {
            aggregation.put(0, None);
        }
        (aggregation, result)
    }

    /// Skips a participant that sends nothing to aggregate.
    pub fn skip(&self, participant: ParticipantId) {
        self.put(participant.index(), None);
    }

    /// Transforms an upload into its contribution and merges it as far as its neighbors are known.
    ///
    /// Runs on a worker.
    pub fn transform_upload(&self, upload: Upload) {
        let participant = upload.meta.participant.id.index();
        let part = self.part(upload);
        self.put(participant, part);
    }

    /// Reserves a place for an upload of an earlier round.
    pub fn expect(&self) -> LatePlace {
        let mut tree = self.tree();
        tree.late.push(AggregationNode::Unknown);
        LatePlace(tree.late.len() - 1)
    }

    /// Transforms an upload of an earlier round into its contribution, at its reserved place.
    ///
    /// Runs on a worker.
    pub fn transform_late(&self, place: LatePlace, upload: Upload) {
        let part = self.part(upload);
        self.tree().late[place.0] = AggregationNode::Known(part);
        self.finish();
    }

    /// Declares that no more uploads are expected.
    pub fn seal(&self) {
        self.tree().sealed = true;
        self.finish();
    }

    /// Returns the number of parts that wait for their neighbor.
    #[cfg(test)]
    pub fn waiting_parts(&self) -> usize {
        let nodes = &self.tree().nodes;
        nodes.iter().filter(|node| matches!(node, AggregationNode::Known(Some(_)))).count()
    }

    fn part(&self, upload: Upload) -> Option<PartialAggregate> {
        let UploadMeta { participant, base, .. } = &upload.meta;
        let (round, participant, client) = (*base, participant.id, participant.client);
        let why = match guard(|| self.mode.transform_upload(upload)) {
            Ok(Ok(part)) => return Some(part),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("lifting panicked: {panic}"),
        };
        self.tree().refused.push(RejectedUpload { round, participant, client, why });
        None
    }

    /// Sends the result once all parts are known and no more are expected.
    fn finish(&self) {
        let mut tree = self.tree();
        let all_known = tree.late.iter().all(|node| matches!(node, AggregationNode::Known(_)));
        if tree.root.is_none() || !tree.sealed || !all_known {
            return;
        }
        let (Some(done), Some(root)) = (tree.done.take(), tree.root.take()) else { return };
        let late = std::mem::take(&mut tree.late);
        drop(tree);
        let part = late.into_iter().fold(root, |sum, node| match node {
            AggregationNode::Known(part) => self.merge(sum, part),
            AggregationNode::Unknown | AggregationNode::Taken => sum,
        });
        let mut tree = self.tree();
        let mut refused = std::mem::take(&mut tree.refused);
        refused.sort();
        let broken = tree.broken.take();
        // No one listens after the run was stopped.
        let _ = done.send(AggregationResult { part, refused, broken });
    }

    fn tree(&self) -> parking_lot::MutexGuard<'_, TreeState> {
        self.shared.lock()
    }

    /// Puts a part at a leaf and merges upward while the sibling is known. Merges run outside the lock.
    fn put(&self, leaf: usize, part: Option<PartialAggregate>) {
        let mut node = self.tree().leaves - 1 + leaf;
        let mut part = part;
        loop {
            let mut tree = self.tree();
            if node == 0 {
                tree.root = Some(part);
                drop(tree);
                return self.finish();
            }
            let sibling = ((node - 1) ^ 1) + 1;
            match std::mem::replace(&mut tree.nodes[sibling], AggregationNode::Taken) {
                AggregationNode::Unknown => {
                    tree.nodes[sibling] = AggregationNode::Unknown;
                    tree.nodes[node] = AggregationNode::Known(part);
                    return;
                }
                AggregationNode::Known(other) => {
                    drop(tree);
                    let (left, right) = if node % 2 == 1 { (part, other) } else { (other, part) };
                    part = self.merge(left, right);
                    node = (node - 1) / 2;
                }
                AggregationNode::Taken => return, // counting a participant twice changes nothing
            }
        }
    }

    fn merge(
        &self,
        left: Option<PartialAggregate>,
        right: Option<PartialAggregate>,
    ) -> Option<PartialAggregate> {
        match (left, right) {
            (Some(left), Some(right)) => match guard(|| self.mode.merge(left, right)) {
                Ok(merged) => Some(merged),
                Err(panic) => {
                    self.tree().broken = Some(panic);
                    None
                }
            },
            (one, None) | (None, one) => one,
        }
    }
}
