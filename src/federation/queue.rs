//! The order of events: `(virtual time, class, actor, sequence)`.
//!
//! No part of the key depends on when something really happened. Classes settle ties: what was
//! delivered at an instant counts before work that ends at it, and a deadline comes last, so
//! "exactly at the deadline" is in time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::quantity::{ClientId, VirtualTime};

/// Class of an event; earlier variants come first at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventClass {
    /// Arrival of a frame, or the time at which its loss is known.
    Delivery,
    /// End of the work of an actor.
    Timer,
    /// Deadline of a round.
    Deadline,
}

/// Receiver of an event; the server comes first at the same instant and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActorId {
    /// The one server.
    Server,
    /// Client with this number, from 0.
    Client(ClientId),
}

/// An event's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Virtual time of the event.
    pub at: VirtualTime,
    /// Class of the event.
    pub class: EventClass,
    /// Receiver of the event.
    pub to: ActorId,
    /// Number of the event in the order of creation.
    pub sequence: u64,
}

/// Queue of events yet to happen, soonest first.
///
/// Only keys are sorted; the events themselves stay in place, because messages are large and the queue of a large
/// federation is long.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(EventKey, usize)>>,
    waiting: Vec<Option<T>>,
    free: Vec<usize>,
    made: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), waiting: Vec::new(), free: Vec::new(), made: 0 }
    }
}

impl<T> EventQueue<T> {
    /// Adds an event.
    pub fn push(&mut self, at: VirtualTime, class: EventClass, to: ActorId, what: T) {
        let place = EventKey { at, class, to, sequence: self.made };
        self.made += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[slot] = Some(what);
        self.heap.push(Reverse((place, slot)));
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(EventKey, T)> {
        let Reverse((place, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.waiting[slot].take().map(|what| (place, what))
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<VirtualTime> {
        self.heap.peek().map(|Reverse((place, _))| place.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class() -> impl Strategy<Value = EventClass> {
        prop_oneof![Just(EventClass::Delivery), Just(EventClass::Timer), Just(EventClass::Deadline)]
    }

    fn actor() -> impl Strategy<Value = ActorId> {
        prop_oneof![
            Just(ActorId::Server),
            (0u32..4).prop_map(|client| ActorId::Client(ClientId(client)))
        ]
    }

    proptest! {
        #[test]
        fn events_come_by_time_class_actor_and_sequence(
            events in prop::collection::vec((0u64..5, class(), actor()), 0..60)
        ) {
            let mut queue = EventQueue::default();
            for (number, (at, class, to)) in events.iter().enumerate() {
                queue.push(VirtualTime(*at), *class, *to, number);
            }
            let mut expected: Vec<usize> = (0..events.len()).collect();
            expected.sort_by_key(|&n| (events[n].0, events[n].1, events[n].2)); // stable
            let popped: Vec<usize> =
                std::iter::from_fn(|| queue.pop().map(|(_, number)| number)).collect();
            prop_assert_eq!(popped, expected);
        }

        /// Events of different actors may be made in any order without changing when they come.
        #[test]
        fn the_order_of_making_matters_only_within_a_place(
            mut events in prop::collection::btree_set((0u64..9, class(), actor()), 0..40)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle()
        ) {
            let drain = |events: &[(u64, EventClass, ActorId)]| {
                let mut queue = EventQueue::default();
                events.iter().for_each(|e| queue.push(VirtualTime(e.0), e.1, e.2, *e));
                std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect::<Vec<_>>()
            };
            let shuffled = drain(&events);
            events.sort();
            prop_assert_eq!(shuffled, drain(&events));
        }
    }
}
