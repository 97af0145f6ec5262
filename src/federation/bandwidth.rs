//! Line that several transfers share fairly.
//!
//! At every moment each transfer gets the same rate, except those whose own link is slower: they get
//! what their link can take, and the others share the rest (max-min fairness, also called processor
//! sharing). Rates change only when a transfer starts or ends, so the line moves from one such moment to
//! the next and forgets nothing between them.
//!
//! Rates are whole millionths of a byte per second and work is counted in millionths of a byte times
//! nanoseconds per second, so nothing is rounded but the moment of an end, up to the next
//! nanosecond.
//!
//! ```
//! use fedcast::federation::bandwidth::Pipe;
//! use fedcast::quantity::VirtualTime;
//! let mut server = Pipe::new(1_000_000); // bytes per second
//! let unlimited = u64::MAX;
//! let first = server.start(VirtualTime(0), 500_000, unlimited);
//! let second = server.start(VirtualTime(0), 250_000, unlimited);
//! // Both get half: the smaller is through after 0.5 s, the other one alone again after that.
//! assert_eq!(server.next_end(), Some((VirtualTime(500_000_000), second)));
//! server.finish(VirtualTime(500_000_000), second);
//! assert_eq!(server.next_end(), Some((VirtualTime(750_000_000), first)));
//! ```

use std::collections::BTreeMap;

use crate::quantity::VirtualTime;

/// Number of a transfer on a pipe, in the order in which transfers start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferId(u64);

/// Number of rate units in one byte per second.
pub const RATE_UNIT: u64 = 1_000_000;

/// Work of one byte, in rate units times nanoseconds.
const BYTE: u128 = RATE_UNIT as u128 * 1_000_000_000;

/// Shared line, with the transfers that it serves.
#[derive(Debug)]
pub struct Pipe {
    capacity: u128,
    /// Time up to which the transfers have been served.
    at: VirtualTime,
    flows: BTreeMap<TransferId, Flow>,
    started: u64,
    /// True if the rates are up to date with the current flows.
    shared: bool,
}

#[derive(Debug)]
struct Flow {
    left: u128,
    own: u128,
    rate: u128,
}

impl Pipe {
    /// Creates a line of `bytes_per_second`, at least one.
    pub fn new(bytes_per_second: u64) -> Pipe {
        Pipe {
            capacity: u128::from(bytes_per_second.max(1)) * u128::from(RATE_UNIT),
            at: VirtualTime::ZERO,
            flows: BTreeMap::new(),
            started: 0,
            shared: true,
        }
    }

    /// Starts a transfer at `now`, which is not before any earlier call.
    ///
    /// `own` is the rate of the transfer's link, in [`RATE_UNIT`]s.
    pub fn start(&mut self, now: VirtualTime, bytes: u64, own: u64) -> TransferId {
        self.serve(now);
        let id = TransferId(self.started);
        self.started += 1;
        let (left, own) = (u128::from(bytes) * BYTE, u128::from(own.max(1)));
        self.flows.insert(id, Flow { left, own, rate: 0 });
        self.shared = false;
        id
    }

    /// Returns the transfer that ends next if none starts before, and when; the first started among equals.
    pub fn next_end(&mut self) -> Option<(VirtualTime, TransferId)> {
        self.share();
        let at = self.at;
        let end = |flow: &Flow| {
            let wait = flow.left.div_ceil(flow.rate);
            at + VirtualTime(u64::try_from(wait).unwrap_or(u64::MAX))
        };
        self.flows.iter().map(|(id, flow)| (end(flow), *id)).min()
    }

    /// Ends a transfer that is complete or given up.
    pub fn finish(&mut self, now: VirtualTime, id: TransferId) {
        self.serve(now);
        self.flows.remove(&id);
        self.shared = false;
    }

    /// Advances the line to `now`: reduces the work left of each transfer by its rate.
    fn serve(&mut self, now: VirtualTime) {
        let passed = u128::from(now.0.saturating_sub(self.at.0));
        if passed > 0 {
            self.share();
            for flow in self.flows.values_mut() {
                flow.left = flow.left.saturating_sub(flow.rate.saturating_mul(passed));
            }
        }
        self.at = self.at.max(now);
    }

    /// Divides the line: the slowest links first, until all others can take an equal share.
    fn share(&mut self) {
        if self.shared {
            return;
        }
        let mut flows: Vec<&mut Flow> = self.flows.values_mut().collect();
        flows.sort_by_key(|flow| flow.own);
        let (mut rest, mut others) = (self.capacity, flows.len() as u128);
        let mut equal = None;
        for flow in flows {
            let fair = equal.unwrap_or_else(|| (rest / others).max(1));
            flow.rate = flow.own.min(fair);
            if flow.own > fair {
                // All that follow take the same number, independent of their order.
                equal = Some(fair);
            }
            rest = rest.saturating_sub(flow.rate);
            others -= 1;
        }
        self.shared = true;
    }
}

/// Request for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Start time.
    pub start: VirtualTime,
    /// Size in bytes.
    pub bytes: u64,
    /// Rate of the transfer's link, in [`RATE_UNIT`]s.
    pub own: u64,
}

/// Returns the time at which each of these transfers ends on a line of `bytes_per_second`.
pub fn ends(bytes_per_second: u64, asks: &[Ask]) -> Vec<VirtualTime> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    order.sort_by_key(|place| asks[*place].start);
    let mut waiting = order.into_iter().peekable();
    let mut pipe = Pipe::new(bytes_per_second);
    let (mut places, mut ends) = (BTreeMap::new(), vec![VirtualTime::ZERO; asks.len()]);
    loop {
        let start = waiting.peek().map(|place| asks[*place].start);
        match (pipe.next_end(), start) {
            (Some((at, id)), start) if start.is_none_or(|start| at <= start) => {
                pipe.finish(at, id);
                ends[places[&id]] = at;
            }
            (_, Some(at)) => {
                let Some(place) = waiting.next() else { return ends };
                let Ask { bytes, own, .. } = asks[place];
                places.insert(pipe.start(at, bytes, own), place);
            }
            (_, None) => return ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask((start, bytes, own): (u64, u64, u64)) -> Ask {
        Ask { start: VirtualTime(start), bytes, own: own * RATE_UNIT }
    }

    #[test]
    fn slow_links_leave_the_rest_to_the_others() {
        // 10 B/s: one link takes 2 of them, the two others 4 each.
        let ends = ends(10, &[(0, 20, 2), (0, 40, 100), (0, 40, 5)].map(ask));
        assert_eq!(ends, [VirtualTime(10_000_000_000); 3]);
    }

    #[test]
    fn an_unfilled_line_changes_nothing() {
        let ends = ends(u64::MAX, &[(5, 300, 100), (7, 50, 25), (9, 0, 1)].map(ask));
        assert_eq!(ends, [5 + 3_000_000_000, 7 + 2_000_000_000, 9].map(VirtualTime));
    }

    fn asks() -> impl Strategy<Value = Vec<Ask>> {
        prop::collection::vec((0u64..4_000_000_000, 0u64..5_000, 1u64..2_000).prop_map(ask), 1..12)
    }

    proptest! {
        #[test]
        fn none_is_faster_than_its_link_nor_all_than_the_line(
            asks in asks(), capacity in 1u64..4_000
        ) {
            let ends = ends(capacity, &asks);
            for (Ask { start, bytes, own }, end) in asks.iter().zip(&ends) {
                let took = u128::from(end.0 - start.0);
                prop_assert!(took * u128::from(*own) >= u128::from(*bytes) * BYTE);
            }
            // Between the first start and the last end no more than the line carries was asked for.
            let (first, last) = (asks.iter().map(|a| a.start.0).min(), ends.iter().max());
            let span = u128::from(last.expect("some").0 - first.expect("some"));
            let asked: u128 = asks.iter().map(|a| u128::from(a.bytes)).sum();
            prop_assert!(span * u128::from(capacity) >= asked * 1_000_000_000);
        }

        /// The served work equals the requested work: a line that is never idle ends exactly when its work does, up to
        /// a nanosecond per change of rates. Equal shares are rounded down, so that each transfer may leave a rate unit
        /// of the line unused.
        #[test]
        fn nothing_is_served_twice_or_never(
            sizes in prop::collection::vec(1u64..5_000, 1..12), capacity in 1u64..4_000
        ) {
            let asks: Vec<Ask> =
                sizes.iter().map(|bytes| ask((0, *bytes, u64::MAX / RATE_UNIT))).collect();
            let last = ends(capacity, &asks).into_iter().max().expect("some").0;
            let exact = sizes.iter().sum::<u64>() as f64 * 1e9 / capacity as f64;
            let count = sizes.len() as f64;
            let unused = count / (capacity * RATE_UNIT) as f64;
            let slack = 2.0 + count + exact * unused;
            prop_assert!((last as f64 - exact).abs() <= slack, "{last} is not {exact}");
        }

        #[test]
        fn the_order_of_transfers_that_start_together_does_not_matter(
            asks in asks(), capacity in 1u64..4_000
        ) {
            let mut turned = asks.clone();
            turned.reverse();
            let mut back = ends(capacity, &turned);
            back.reverse();
            prop_assert_eq!(ends(capacity, &asks), back);
        }

        #[test]
        fn a_wider_line_delays_no_client(asks in asks(), capacity in 1u64..4_000) {
            let together: Vec<Ask> =
                asks.iter().map(|ask| Ask { start: VirtualTime::ZERO, ..*ask }).collect();
            let (narrow, wide) = (ends(capacity, &together), ends(2 * capacity, &together));
            // Up to rounding of ends that come between.
            let slack = 2 + asks.len() as u64;
            prop_assert!(narrow.iter().zip(&wide).all(|(n, w)| w.0 <= n.0 + slack));
        }
    }
}
