//! Head rows that the server takes from clients.
//!
//! If every client task has its own head rows, a mean over five clients would keep a fifth of a client's update of
//! them. Powder's port does not average heads. It draws an order of the clients in every round, begins with the head of
//! the first one, and in this order replaces the rows of each client's task by those of its head.
//!
//! ```text
//! head <- head of the first client;   for every client m in turn:   head[rows of m's task] <- head_m[rows of m's task]
//! ```
//! So a task's rows are those that its client sent, and rows of other tasks are those of the first client.

use clap::ValueEnum;

use crate::methods::averaging::{ClosedRound, SAMPLES};
use crate::model::{HeadKind, ParameterSet};
use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{KeptUpload, PolicyError};
use crate::scenario::reader::Choice;
use crate::wire::Kind;

/// Clients whose head rows the server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadRows {
    /// Mean of all clients.
    #[default]
    Mean,
    /// Last client of a round at a task for that task's classes; first client for all others.
    ///
    /// The order of clients is drawn in every round. For `tasks.arrival = "client-tasks"`.
    Last,
}

/// Replaces head rows by those of a round's uploads, in an order drawn with the round's key.
///
/// All other parameters keep the values of the mean.
///
/// # Errors
/// When rows do not fit the head.
pub(super) fn take_last(
    closing: &ClosedRound<'_>,
    theta: &mut ParameterSet,
) -> Result<(), PolicyError> {
    let holds = |kept: &&KeptUpload| {
        let samples = kept.update.find(Kind::Statistics, SAMPLES);
        samples.is_some_and(|samples| samples.numbers().iter().sum::<f64>() > 0.0)
    };
    let mut order: Vec<&KeptUpload> = closing.aggregate.kept_uploads.iter().filter(holds).collect();
    draw(&mut order, closing.round.key(Domain::Method));
    put(&order, closing.before, theta)
}

fn draw(order: &mut [&KeptUpload], key: StreamKey) {
    shuffle(&mut key.rng(), order);
}

/// Replaces the head in `theta` by the one before the round with rows of these uploads, in order.
fn put(
    order: &[&KeptUpload],
    before: &ParameterSet,
    theta: &mut ParameterSet,
) -> Result<(), PolicyError> {
    for name in HeadKind::of(before).by_row() {
        let Some(mut head) = before.get(name).cloned() else { continue };
        for (place, kept) in order.iter().enumerate() {
            let Some(sent) = kept.update.parameters.get(name) else { continue };
            if place == 0 {
                head = head.with_rows(sent, 0)?;
            }
            let rows = &kept.meta.participant.view.rows;
            head = head.with_rows(&sent.cut(rows.clone())?, rows.start)?;
        }
        theta.insert(*name, head);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::TaskView;
    use crate::model::{LinearHead, Parameter};
    use crate::policy::{Message, Stage, UploadMeta, one_participant_per_client};
    use crate::quantity::{ClientId, Round, TaskId};

    /// Returns a head of one column, with this value in every row.
    fn head(rows: usize, value: f32) -> ParameterSet {
        let of = |shape: Vec<usize>| Parameter { values: vec![value; rows].into(), shape };
        let all = [(LinearHead::WEIGHT, of(vec![rows, 1])), (LinearHead::BIAS, of(vec![rows]))];
        all.into_iter().collect()
    }

    fn kept(client: u32, rows: std::ops::Range<usize>, sent: ParameterSet) -> KeptUpload {
        let classes = rows.clone().map(|row| row as u32).collect();
        let view = Arc::new(TaskView { task: TaskId(0), rows, classes });
        let participant =
            one_participant_per_client(&Stage::of(view, 1), &[ClientId(client)]).remove(0);
        let (sent, update) = (Arc::new(Message::default()), Message::of(sent));
        KeptUpload { meta: UploadMeta::timely(participant, Round(0)), sent, update }
    }

    fn bias(set: &ParameterSet) -> Vec<f32> {
        assert_eq!(
            set.get(LinearHead::WEIGHT).unwrap().values,
            set.get(LinearHead::BIAS).unwrap().values
        );
        set.get(LinearHead::BIAS).unwrap().values.to_vec()
    }

    /// Three clients have rows 0..2, 2..4 and 4..6 of a head of seven rows: the first one's head is the base, then each
    /// puts in its own rows.
    #[test]
    fn the_last_holder_wins_and_the_first_client_lends_the_rest() {
        let before = head(7, 0.0);
        let clients = [
            kept(0, 0..2, head(7, 1.0)),
            kept(1, 2..4, head(7, 2.0)),
            // This client's head ends with its own classes.
            kept(2, 4..6, head(6, 3.0)),
            // Another participant at the task of client 1.
            kept(3, 2..4, head(7, 4.0)),
        ];
        let of = |order: &[usize]| {
            let order: Vec<&KeptUpload> = order.iter().map(|at| &clients[*at]).collect();
            let mut theta = head(7, 9.0);
            theta.insert("below", Parameter { shape: vec![1], values: [5.0].into() });
            put(&order, &before, &mut theta).unwrap();
            assert_eq!(theta.get("below").unwrap().values[..], [5.0], "left to the mean");
            bias(&theta)
        };
        assert_eq!(of(&[0, 1, 2]), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0]);
        assert_eq!(of(&[1, 0, 2]), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0]);
        // The first client does not change rows that it was not sent.
        assert_eq!(of(&[2, 0, 1]), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 0.0]);
        // Of two clients with the same rows the later one counts.
        assert_eq!(of(&[0, 1, 3]), [1.0, 1.0, 4.0, 4.0, 1.0, 1.0, 1.0]);
        assert_eq!(of(&[0, 3, 1]), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
        assert_eq!(of(&[]), [0.0; 7]);
        // Rows that the head does not have are an error.
        let wrong = kept(0, 6..9, head(9, 1.0));
        assert!(put(&[&wrong], &before, &mut head(7, 0.0)).is_err());
        let short = kept(0, 2..4, head(3, 1.0));
        assert!(put(&[&short], &before, &mut head(7, 0.0)).is_err());
    }

    /// The order depends only on the round's key, and all clients are first about equally often.
    #[test]
    fn the_order_is_drawn_in_every_round() {
        let clients = [0, 1, 2, 3, 4].map(|client| kept(client, 0..1, head(1, 0.0)));
        let order = |round| {
            let mut order: Vec<&KeptUpload> = clients.iter().collect();
            draw(&mut order, StreamKey::new(7, Domain::Method).round(round));
            order.iter().map(|kept| kept.meta.participant.client.0).collect::<Vec<_>>()
        };
        assert_eq!(order(3), order(3));
        let firsts: Vec<u32> = (0..200).map(|round| order(round)[0]).collect();
        for client in 0..5 {
            let times = firsts.iter().filter(|first| **first == client).count();
            assert!((20..60).contains(&times), "client {client} is first {times} times");
        }
    }
}
