use proptest::prelude::*;

use super::*;
use crate::quantity::{ParticipantId, VirtualTime};

fn size(prompt: u64, head: u64) -> FrameSize {
    let mut kinds = KindBytes::default();
    kinds.add(Kind::Prompt, Bytes(prompt));
    kinds.add(Kind::Head, Bytes(head));
    FrameSize {
        header: Bytes(40),
        meta: Bytes(3),
        table: Bytes(17),
        raw: Bytes(2 * (prompt + head)),
        payload: Bytes(prompt + head),
        kinds,
    }
}

fn charges() -> impl Strategy<Value = Vec<Charge>> {
    let one = (0u32..6, 0u32..4, any::<bool>(), 0usize..3, 0u64..1000, any::<bool>()).prop_map(
        |(round, client, down, outcome, bytes, copy)| {
            let direction = if down { Direction::Down } else { Direction::Up };
            let outcome =
                [FrameOutcome::Delivered, FrameOutcome::Late, FrameOutcome::Lost][outcome];
            let charge =
                Charge::new(Round(round), ClientId(client), direction, &size(bytes, bytes / 3));
            let sent = match outcome {
                FrameOutcome::Lost => Bytes(charge.sent.0 / 2),
                _ => charge.sent,
            };
            Charge { outcome, sent, copy, ..charge }
        },
    );
    proptest::collection::vec(one, 0..60)
}

fn sum<'a>(parts: impl Iterator<Item = &'a Sums>) -> Sums {
    parts.fold(Sums::default(), |mut all, one| {
        all += *one;
        all
    })
}

proptest! {
    #[test]
    fn all_views_agree_and_order_does_not_matter(
        charges in charges(), cut in 0u32..6,
    ) {
        let mut ledger = Ledger::default();
        charges.iter().for_each(|c| ledger.charge(c));
        let mut backwards = Ledger::default();
        charges.iter().rev().for_each(|c| backwards.charge(c));
        prop_assert_eq!(&ledger, &backwards);

        let by_client = sum(ledger.clients().flat_map(|(_, t)| [&t.down, &t.up]));
        let all = sum([ledger.direction(Direction::Down), ledger.direction(Direction::Up)].iter());
        prop_assert_eq!(by_client, all);
        prop_assert_eq!(all.frames, charges.len() as u64);
        prop_assert_eq!(all.bytes, all.control + all.payload);
        prop_assert_eq!(all.kinds.total(), all.payload);
        prop_assert_eq!(all.bytes, charges.iter().map(Charge::frame).sum());
        prop_assert_eq!(all.sent, charges.iter().map(|c| c.sent).sum());

        let totals = ledger.totals();
        let early = ledger.drain(Round(cut));
        prop_assert!(early.iter().all(|(k, _)| k.round <= Round(cut)));
        prop_assert!(ledger.rows().all(|(k, _)| k.round > Round(cut)));
        prop_assert!(ledger.drain(Round(cut)).is_empty());
        let late = ledger.drain(Round(u32::MAX));
        prop_assert_eq!(sum(early.iter().chain(&late).map(|(_, s)| s)), all);
        prop_assert_eq!(ledger.totals(), totals.clone());

        let text = serde_json::to_string(&totals).unwrap();
        let resumed = Ledger::from(serde_json::from_str::<Totals>(&text).unwrap());
        prop_assert_eq!(resumed, ledger);
    }
}

#[test]
fn drained_rounds_leave_nothing_behind() {
    let mut ledger = Ledger::default();
    for round in 0..1000 {
        for client in 0..10 {
            let charge = Charge::new(Round(round), ClientId(client), Direction::Up, &size(8, 4));
            ledger.charge(&charge);
        }
        assert_eq!(ledger.drain(Round(round)).len(), 10);
    }
    assert_eq!(ledger.rows().count(), 0);
    assert_eq!(ledger.client(ClientId(3)).up.payload, Bytes(12_000));
    assert_eq!(ledger.client(ClientId(30)), ClientTotals::default());
}

#[test]
fn an_event_charges_what_its_frame_says() {
    let size = size(30, 9);
    let event = |kinds: Option<&str>| {
        let mut bytes = FrameBytes::from(&size);
        bytes.kinds.extend(kinds.map(|k| (k.to_owned(), 1)));
        Event::FrameCharged {
            round: Round(2),
            task: TaskId(1),
            phase: 4,
            participant: ParticipantId(0),
            client: ClientId(5),
            direction: Direction::Up,
            outcome: FrameOutcome::Late,
            sent: bytes.frame(),
            bytes: bytes.into(),
            latency: 12,
            kind: ParticipantKind::Client,
            copy: false,
            asset: None,
        }
    };
    let mut ledger = Ledger::default();
    let entry = |event| Entry { seq: 0, at: VirtualTime::ZERO, event, numbers: None };
    ledger.record(&entry(event(None))).unwrap();
    let expected = Charge {
        task: TaskId(1),
        phase: 4,
        outcome: FrameOutcome::Late,
        ..Charge::new(Round(2), ClientId(5), Direction::Up, &size)
    };
    let mut by_hand = Ledger::default();
    by_hand.charge(&expected);
    assert_eq!(ledger, by_hand);
    assert_eq!(ledger.total(Direction::Up, FrameOutcome::Late).ratio(), Some(2.0));
    assert_eq!(ledger.total(Direction::Up, FrameOutcome::Delivered), Sums::default());
    let error = ledger.record(&entry(event(Some("telepathy")))).unwrap_err();
    assert!(error.to_string().contains("telepathy"));
    assert_eq!(ledger, by_hand);
}
