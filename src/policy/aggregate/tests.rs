//! Aggregation, on random updates.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use crate::data::TaskView;
use crate::model::{CosineHead, HeadKind, LinearHead, Parameter, ParameterSet};
use crate::numerics::symmetric::Symmetric;
use crate::policy::{
    Aggregate, AveragingGroup, Message, MessageSpec, PolicyError, Stage, StalenessRule, TensorSpec,
    UploadMeta, Weight, map_averaged, masked_contribution, one_participant_per_client,
};
use crate::quantity::{ClientId, Round, TaskId};
use crate::wire::{Body, Dtype, Kind, NamedTensor, Section};

const SAMPLES: &str = "samples";
const PROMPT: &str = "prompt.00";
const ROWS: usize = 4;
const WIDTH: usize = 3;
/// Numbers of a prompt of two, a head, and a bias.
const NUMBERS: usize = 2 + ROWS * WIDTH + ROWS;

/// Update that a client made of its download.
#[derive(Clone, Debug)]
struct Update {
    samples: u32,
    /// Head rows that it sends.
    rows: Range<usize>,
    discount: f64,
    /// All numbers, also of rows that it does not send.
    values: Vec<f32>,
}

prop_compose! {
    fn update()(
        samples in prop_oneof![Just(0u32), 1u32..500],
        first in 0..ROWS,
        length in 1..=ROWS,
        discount in prop_oneof![Just(1.0), 0.1..1.0],
        values in numbers(),
    ) -> Update {
        Update { samples, rows: first..(first + length).min(ROWS), discount, values }
    }
}

fn numbers() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-3f32..3.0, NUMBERS)
}

fn heads() -> impl Strategy<Value = HeadKind> {
    prop_oneof![Just(HeadKind::Linear), Just(HeadKind::Cosine)]
}

fn shapes(kind: HeadKind) -> [(&'static str, Vec<usize>); 3] {
    let other = match kind {
        HeadKind::Linear => (LinearHead::BIAS, vec![ROWS]),
        HeadKind::Cosine | HeadKind::Distance => (CosineHead::SIGMA, vec![]),
    };
    [(PROMPT, vec![2]), (LinearHead::WEIGHT, vec![ROWS, WIDTH]), other]
}

/// Returns true if these rows are of this tensor.
fn has_rows(name: &str) -> bool {
    [LinearHead::WEIGHT, LinearHead::BIAS].contains(&name)
}

/// Returns all parameters; of a head, only these rows.
fn cut(kind: HeadKind, values: &[f32], rows: &Range<usize>) -> ParameterSet {
    let mut rest = values;
    let cut = shapes(kind).map(|(name, mut shape)| {
        let (mine, after) = rest.split_at(shape.iter().product());
        rest = after;
        let mut mine = mine.to_vec();
        if has_rows(name) {
            let width: usize = shape[1..].iter().product();
            mine = mine[rows.start * width..rows.end * width].to_vec();
            shape[0] = rows.len();
        }
        (name, Parameter { shape, values: mine.into() })
    });
    cut.into_iter().collect()
}

fn layout(kind: HeadKind, rows: &Range<usize>) -> MessageSpec {
    let place = |(name, mut shape): (&'static str, Vec<usize>)| {
        let first = if has_rows(name) { rows.start } else { 0 };
        if has_rows(name) {
            shape[0] = rows.len();
        }
        let place = TensorSpec::parameter(name, &shape).from_row(first);
        place.averaged(AveragingGroup::All, Weight::Sum(SAMPLES))
    };
    counted(shapes(kind).into_iter().map(place).collect())
}

/// Returns a layout with a sample count in addition to the parameters.
fn counted(parameters: Vec<TensorSpec>) -> MessageSpec {
    let extra = vec![TensorSpec::new(Kind::Statistics, SAMPLES, &[], Dtype::U32)];
    MessageSpec { extra, ..MessageSpec::of(parameters) }
}

fn statistics(tensors: Vec<NamedTensor>) -> Vec<Section> {
    vec![Section::new(Kind::Statistics, tensors)]
}

fn message(parameters: ParameterSet, samples: u32) -> Message {
    let samples = NamedTensor::u32(SAMPLES, [], vec![samples]).unwrap();
    Message { extra: statistics(vec![samples]), ..Message::of(parameters) }
}

fn meta(discount: f64) -> UploadMeta {
    let view = TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] };
    let participant =
        one_participant_per_client(&Stage::of(Arc::new(view), 2), &[ClientId(0)]).remove(0);
    UploadMeta { discount, ..UploadMeta::timely(participant, Round(0)) }
}

fn aggregate_one(
    sent: &Arc<Message>,
    discount: f64,
    (update, upload): (Message, &MessageSpec),
) -> Result<Aggregate, PolicyError> {
    Aggregate::of(&meta(discount), (sent, &layout(HeadKind::Linear, &(0..ROWS))), (update, upload))
}

fn aggregate_of(kind: HeadKind, base: &[f32], updates: &[Update]) -> Aggregate {
    let (download, sent) =
        (layout(kind, &(0..ROWS)), Arc::new(Message::of(cut(kind, base, &(0..ROWS)))));
    let one = |update: &Update| {
        let upload = layout(kind, &update.rows);
        let message = message(cut(kind, &update.values, &update.rows), update.samples);
        Aggregate::of(&meta(update.discount), (&sent, &download), (message, &upload)).unwrap()
    };
    updates.iter().map(one).reduce(Aggregate::merge).unwrap()
}

fn flat(set: &ParameterSet, kind: HeadKind) -> Vec<f32> {
    shapes(kind).iter().flat_map(|(name, _)| set.get(name).unwrap().values.to_vec()).collect()
}

/// The head row that a number is of.
fn row_of(kind: HeadKind, at: usize) -> Option<usize> {
    let head = 2 + ROWS * WIDTH;
    match kind {
        _ if (2..head).contains(&at) => Some((at - 2) / WIDTH),
        HeadKind::Linear if at >= head => Some(at - head),
        _ => None,
    }
}

/// Number by number, as it is written in papers.
fn expected(kind: HeadKind, base: &[f32], updates: &[Update]) -> Vec<f64> {
    let weight: f64 = updates.iter().map(|update| f64::from(update.samples)).sum();
    let of = |(at, before): (usize, &f32)| {
        let step = |update: &Update| {
            let sent = row_of(kind, at).is_none_or(|row| update.rows.contains(&row));
            let moved = f64::from(update.values[at]) - f64::from(*before);
            if sent { f64::from(update.samples) * update.discount * moved } else { 0.0 }
        };
        let moved: f64 = updates.iter().map(step).sum();
        f64::from(*before) + if weight > 0.0 { moved / weight } else { 0.0 }
    };
    base.iter().enumerate().map(of).collect()
}

fn close(found: &[f32], wanted: &[f64]) -> bool {
    found.iter().zip(wanted).all(|(a, b)| (f64::from(*a) - b).abs() <= 1e-6 * (1.0 + b.abs()))
}

proptest! {
    /// Rows that a client did not send count as unchanged.
    ///
    /// A discount scales a step and leaves its weight, and nothing moves if no client has weight.
    #[test]
    fn the_mean_over_all_is_that_of_papers(
        kind in heads(),
        base in numbers(),
        updates in prop::collection::vec(update(), 1..6),
    ) {
        let aggregate = aggregate_of(kind, &base, &updates);
        let sent = cut(kind, &base, &(0..ROWS));
        let found = flat(&aggregate.apply(&sent), kind);
        let wanted = expected(kind, &base, &updates);
        prop_assert!(close(&found, &wanted), "{:?} {:?}", found, wanted);
        let weight: f64 = updates.iter().map(|update| f64::from(update.samples)).sum();
        prop_assert_eq!(aggregate.means[&AveragingGroup::All].weight(), weight);
        prop_assert!(aggregate.sums.is_empty() && aggregate.kept_uploads.is_empty());
    }

    /// Summands that are added number by number aggregate like the uploads themselves.
    #[test]
    fn the_sum_of_summands_is_the_aggregate_of_uploads(
        kind in heads(),
        base in numbers(),
        rows in update(),
        updates in prop::collection::vec(update(), 1..6),
    ) {
        let rows = rows.rows;
        let updates: Vec<Update> = updates.into_iter()
            .map(|update| Update { rows: rows.clone(), discount: 1.0, ..update })
            .collect();
        let (download, upload) = (layout(kind, &(0..ROWS)), layout(kind, &rows));
        let sent = Message::of(cut(kind, &base, &(0..ROWS)));
        let summands = updates.iter().map(|update| {
            let message = message(cut(kind, &update.values, &rows), update.samples);
            masked_contribution((&sent, &download), (&message, &upload)).unwrap()
        });
        let sum = summands.reduce(|sum, more| added(&sum, &more)).unwrap();
        let summed = Aggregate::of_sum(&sum, &download, &upload).unwrap();
        let aggregate = aggregate_of(kind, &base, &updates);
        prop_assert_eq!(summed.means[&AveragingGroup::All].weight(), aggregate.means[&AveragingGroup::All].weight());
        let wanted: Vec<f64> =
            flat(&aggregate.apply(&sent.parameters), kind).into_iter().map(f64::from).collect();
        prop_assert!(close(&flat(&summed.apply(&sent.parameters), kind), &wanted));
    }

    /// A number that is averaged is replaced, row by row; what is not averaged stays.
    #[test]
    fn a_changed_upload_differs_in_what_is_averaged(
        kind in heads(), base in numbers(), update in update(),
    ) {
        let (download, mut upload) = (layout(kind, &(0..ROWS)), layout(kind, &update.rows));
        upload.parameters[0].aggregation = Default::default();
        let sent = Message::of(cut(kind, &base, &(0..ROWS)));
        let made = message(cut(kind, &update.values, &update.rows), update.samples);
        let mirrored = |before: f32, after: f32| 2.0 * before - after;
        let found =
            map_averaged((&sent, &download), (&made, &upload), &mut |before, after| mirrored(before, after));
        let found = found.unwrap();
        let mirror = |(at, (before, after)): (usize, (&f32, &f32))| match at {
            0..2 => *after,
            _ => mirrored(*before, *after),
        };
        let wanted: Vec<f32> =
            base.iter().zip(&update.values).enumerate().map(mirror).collect();
        prop_assert_eq!(&found.parameters, &cut(kind, &wanted, &update.rows));
        let without = |message: &Message| {
            let parameters = ParameterSet::new();
            Message { parameters, ..message.clone() }.body().digest()
        };
        prop_assert_eq!(without(&found), without(&made));
    }

    /// Rows of a task or head are averaged over the clients that learned them.
    #[test]
    fn owners_have_denominators_of_their_own(
        updates in prop::collection::vec((0u16..3, 0u32..100, prop::collection::vec(-3f32..3.0, 3)), 1..8),
    ) {
        let own = |task: u16| [format!("prompt.{task:02}"), format!("head.{task}")];
        let names = (0..3).flat_map(own).chain(["conv.weight".to_owned()]);
        let one = |value: f32| Parameter { shape: vec![1], values: [value].into() };
        let base: ParameterSet = names.map(|name| (name, one(1.0))).collect();
        let sent = Arc::new(Message::of(base.clone()));
        let download =
            MessageSpec::of(base.iter().map(|(name, _)| TensorSpec::parameter(Arc::clone(name), &[1])).collect());
        let aggregate = updates.iter().map(|(task, samples, values)| {
            let [prompt, head] = own(*task);
            let groups =
                [AveragingGroup::All, AveragingGroup::Task(*task), AveragingGroup::Head(10 * u32::from(*task))];
            let named: Vec<String> = vec!["conv.weight".to_owned(), prompt, head];
            let place = |(name, group): (&String, AveragingGroup)| {
                TensorSpec::parameter(name.as_str(), &[1]).averaged(group, Weight::Sum(SAMPLES))
            };
            let upload = counted(named.iter().zip(groups).map(place).collect());
            let set = named.iter().cloned().zip(values.iter().map(|value| one(*value))).collect();
            let update = message(set, *samples);
            Aggregate::of(&meta(1.0), (&sent, &download), (update, &upload)).unwrap()
        });
        let aggregate = aggregate.reduce(Aggregate::merge).unwrap();
        let keys: Vec<&AveragingGroup> = aggregate.means.keys().collect();
        let order = |group: &AveragingGroup| match group {
            AveragingGroup::All => 0,
            AveragingGroup::Task(_) => 1,
            AveragingGroup::Head(_) => 2,
        };
        prop_assert!(keys.is_sorted_by_key(|group| order(group)));
        let applied = aggregate.apply(&base);
        for (name, parameter) in applied.iter() {
            let part = |task: &u16| {
                let [prompt, head] = own(*task);
                [("conv.weight", 0), (&prompt, 1), (&head, 2)]
                    .into_iter().find(|(own, _)| *own == &**name).map(|(_, at)| at)
            };
            let said: Vec<(f64, f64)> = updates.iter()
                .filter_map(|(task, samples, values)| {
                    part(task).map(|at| (f64::from(*samples), f64::from(values[at])))
                })
                .collect();
            let weight: f64 = said.iter().map(|(weight, _)| weight).sum();
            let moved: f64 = said.iter().map(|(weight, value)| weight * (value - 1.0)).sum();
            let wanted = 1.0 + if weight > 0.0 { moved / weight } else { 0.0 };
            prop_assert!(close(&parameter.values, &[wanted]), "{}: {}", name, wanted);
        }
    }

    /// A symmetric matrix aggregates to the same sum as a whole and as a triangle.
    ///
    /// A discount scales only what ages.
    #[test]
    fn sums_of_matrices_and_of_triangles_are_alike(
        grams in prop::collection::vec((prop::collection::vec(-3f64..3.0, 6), 0.1f64..1.0, 0u32..9), 1..5),
    ) {
        let aggregate = |packed: bool| {
            let shape = if packed { vec![6] } else { vec![3, 3] };
            let gram = TensorSpec::new(Kind::Statistics, "gram", &shape, Dtype::F64).symmetric();
            let whole = TensorSpec::new(Kind::Statistics, "count", &[], Dtype::U32).summed(StalenessRule::Whole);
            let place = gram.summed(StalenessRule::Scaled);
            let upload = MessageSpec { extra: vec![place.clone(), whole], ..MessageSpec::default() };
            let one = |(triangle, discount, count): &(Vec<f64>, f64, u32)| {
                let count = NamedTensor::u32("count", [], vec![*count]).unwrap();
                let extra = statistics(vec![place.tensor(triangle).unwrap(), count]);
                let update = Message { extra, ..Message::default() };
                let sent = (&Arc::default(), &MessageSpec::default());
                Aggregate::of(&meta(*discount), sent, (update, &upload)).unwrap()
            };
            grams.iter().map(one).reduce(Aggregate::merge).unwrap()
        };
        let (full, packed) = (aggregate(false), aggregate(true));
        prop_assert_eq!(&full.sums, &packed.sums);
        for at in 0..6 {
            let wanted: f64 = grams.iter().map(|(gram, discount, _)| discount * gram[at]).sum();
            prop_assert!((packed.sum("gram").unwrap()[at] - wanted).abs() < 1e-12);
        }
        let counted: u32 = grams.iter().map(|(_, _, count)| count).sum();
        prop_assert_eq!(full.sum("count").unwrap(), &[f64::from(counted)]);
        prop_assert!(full.sum("means").unwrap_err().to_string().contains("`means`"));
    }
}

/// Two bodies, number by number.
fn added(a: &Body, b: &Body) -> Body {
    let tensor = |(a, b): (&NamedTensor, &NamedTensor)| {
        let sum = a.as_f64().unwrap().iter().zip(b.as_f64().unwrap().iter()).map(|(a, b)| a + b);
        NamedTensor::f64(Arc::clone(a.name()), a.shape(), sum.collect::<Vec<f64>>()).unwrap()
    };
    let section = |(a, b): (&Section, &Section)| {
        Section::new(a.kind, a.tensors.iter().zip(&b.tensors).map(tensor).collect())
    };
    Body::new(a.meta.clone(), a.sections.iter().zip(&b.sections).map(section).collect())
}

/// Each mean is rounded once, in the order all, task, head.
#[test]
fn means_are_applied_in_the_order_of_their_groups() {
    let one = |value: f32| -> ParameterSet {
        [("conv.weight", Parameter { shape: vec![1], values: [value].into() })]
            .into_iter()
            .collect()
    };
    let sent = Arc::new(Message::of(one(0.0)));
    let place = || TensorSpec::parameter("conv.weight", &[1]);
    let steps = [
        (AveragingGroup::Head(0), -1e8),
        (AveragingGroup::All, 1e8),
        (AveragingGroup::Task(0), 3.0),
    ];
    let aggregate = steps.map(|(group, step)| {
        let upload = counted(vec![place().averaged(group, Weight::Presence(SAMPLES))]);
        let download = MessageSpec::of(vec![place()]);
        Aggregate::of(&meta(1.0), (&sent, &download), (message(one(step), 7), &upload)).unwrap()
    });
    let aggregate = aggregate.into_iter().reduce(Aggregate::merge).unwrap();
    assert!(aggregate.means.keys().eq([
        &AveragingGroup::All,
        &AveragingGroup::Task(0),
        &AveragingGroup::Head(0)
    ]));
    assert_eq!(
        aggregate.means[&AveragingGroup::All].weight(),
        1.0,
        "present, however many samples"
    );
    // The three is lost when added to a hundred million; added later, it would remain.
    assert_eq!(aggregate.apply(&one(0.0)), one(0.0));
}

#[test]
fn a_matrix_that_noise_made_lopsided_is_summed_as_its_symmetric_half() {
    let place = TensorSpec::new(Kind::Statistics, "gram", &[2, 2], Dtype::F64).symmetric();
    let upload =
        MessageSpec { extra: vec![place.summed(StalenessRule::Refuse)], ..MessageSpec::default() };
    let gram = NamedTensor::f64("gram", [2, 2], vec![1.0, 2.0, 4.0, 5.0]).unwrap();
    let update = Message { extra: statistics(vec![gram]), ..Message::default() };
    let sent = (&Arc::default(), &MessageSpec::default());
    let aggregate = Aggregate::of(&meta(1.0), sent, (update, &upload)).unwrap();
    let half = Symmetric::from_packed(2, vec![1.0, 3.0, 5.0]).unwrap();
    assert_eq!(aggregate.sum("gram").unwrap(), half.packed());
}

/// A kept upload comes with the download of its participant, in the order of merging.
#[test]
fn kept_uploads_come_whole_and_in_order() {
    let mut upload = layout(HeadKind::Linear, &(0..ROWS));
    upload.extra[0] = upload.extra[0].clone().kept();
    let base = cut(HeadKind::Linear, &[0.5; NUMBERS], &(0..ROWS));
    let sent = Arc::new(Message::of(base.clone()));
    let one =
        |samples| aggregate_one(&sent, 1.0, (message(base.clone(), samples), &upload)).unwrap();
    let aggregate = [3, 1, 2].map(one).into_iter().reduce(Aggregate::merge).unwrap();
    let samples = |kept: &crate::policy::KeptUpload| {
        assert!(Arc::ptr_eq(&kept.sent, &sent));
        kept.update.named(SAMPLES).unwrap().numbers()[0]
    };
    assert_eq!(aggregate.kept_uploads.iter().map(samples).collect::<Vec<_>>(), [3.0, 1.0, 2.0]);
}

#[test]
fn an_upload_that_does_not_fit_what_was_sent_is_refused_by_name() {
    let sent = Arc::new(Message::of(cut(HeadKind::Linear, &[0.5; NUMBERS], &(0..ROWS))));
    let place = |name: &str, shape: &[usize]| {
        TensorSpec::parameter(name, shape).averaged(AveragingGroup::All, Weight::Sum(SAMPLES))
    };
    let refused = |place: TensorSpec, samples: bool| {
        let count = place.shape.iter().product();
        let parameter = Parameter { shape: place.shape.clone(), values: vec![1.0; count].into() };
        let mut update = message([(&*place.name, parameter)].into_iter().collect(), 5);
        if !samples {
            update.extra.clear();
        }
        let upload = counted(vec![place]);
        aggregate_one(&sent, 1.0, (update, &upload)).unwrap_err().to_string()
    };
    let weight = LinearHead::WEIGHT;
    for (place, name) in [
        (place("conv.weight", &[2]), "`conv.weight`"),
        (place(weight, &[ROWS, WIDTH + 1]), "`head.weight`"),
        (place(weight, &[ROWS + 1, WIDTH]), "`head.weight`"),
        (place(weight, &[ROWS * WIDTH]), "`head.weight`"),
        (place(weight, &[2, WIDTH]).from_row(3), "`head.weight` of shape [2, 3] from row 3"),
        (place(PROMPT, &[3]), "`prompt.00`"),
    ] {
        let text = refused(place, true);
        assert!(text.contains(name) && text.contains("was not sent"), "{text}");
    }
    assert!(refused(place(PROMPT, &[2]), false).contains("`samples`"));
}

#[test]
fn weights_of_numbers_belong_to_the_rows_that_are_sent() {
    let head = |rows: &Range<usize>| {
        TensorSpec::parameter(LinearHead::WEIGHT, &[rows.len(), WIDTH]).from_row(rows.start)
    };
    let filled = |rows: usize, value: f32| {
        let parameter =
            Parameter { shape: vec![rows, WIDTH], values: vec![value; rows * WIDTH].into() };
        [(LinearHead::WEIGHT, parameter)].into_iter().collect::<ParameterSet>()
    };
    let sent = Arc::new(Message::of(filled(ROWS, 1.0)));
    let contribution = |rows: Range<usize>, value: f32, weight: f32| {
        let place = head(&rows).averaged(AveragingGroup::All, Weight::Elementwise("worth."));
        let worth = place.weights().unwrap();
        let tensor =
            NamedTensor::f32(&*worth.name, [rows.len(), WIDTH], vec![weight; rows.len() * WIDTH]);
        let mut update = message(filled(rows.len(), value), 1);
        update.extra.extend(statistics(vec![tensor.unwrap()]));
        let mut upload = counted(vec![place]);
        upload.extra.push(worth);
        let download = MessageSpec::of(vec![head(&(0..ROWS))]);
        Aggregate::of(&meta(1.0), (&sent, &download), (update, &upload)).unwrap()
    };
    let mean = contribution(1..3, 5.0, 1.0).merge(contribution(2..4, 9.0, 3.0)).elementwise;
    let moved = mean.apply(sent.parameters.clone());
    let rows = moved.get(LinearHead::WEIGHT).unwrap().values.chunks(WIDTH);
    // The third row has (1 * 4 + 3 * 8) / 4 more.
    for (row, expected) in rows.zip([1.0, 5.0, 8.0, 9.0]) {
        assert!(row.iter().all(|value| (value - expected).abs() < 1e-6), "{row:?} {expected}");
    }
}

#[test]
fn rows_around_an_upload_are_those_that_were_sent() {
    let rows = |rows: Range<usize>| {
        TensorSpec::parameter(LinearHead::WEIGHT, &[rows.len(), WIDTH]).from_row(rows.start)
    };
    for (sent, after) in [(0..5, 0), (0..6, WIDTH), (1..8, 3 * WIDTH)] {
        assert_eq!(super::around(&rows(2..5), Some(&rows(sent))), (2 * WIDTH, after));
    }
    assert_eq!(super::around(&rows(2..5), None), (2 * WIDTH, 0));
}
