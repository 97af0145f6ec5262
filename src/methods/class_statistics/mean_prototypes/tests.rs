//! MeanPrototypes against vectors, and what keeps them.

use super::*;
use crate::golden::Golden;
use crate::learning::losses::ClassPrototypes;
use crate::numerics::gaussian::DiagonalGaussian;
use crate::quantity::TaskId;

fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|v| v as f32).collect()
}

fn view() -> TaskView {
    TaskView { task: TaskId(1), rows: 3..8, classes: (3..8).collect() }
}

/// Rows of a stored table whose flag is set, by head row.
fn stored(golden: &Golden, table: &str, flags: &str) -> BTreeMap<u32, Vec<f32>> {
    let (rows, flags) = (narrow(golden.f64(table)), golden.i64(flags));
    let known = (3..8).zip(rows.chunks(6)).zip(flags).filter(|(_, flag)| *flag == 1);
    known.map(|((row, values), _)| (row, values.to_vec())).collect()
}

#[test]
fn golden_fedproto_server() {
    let Some(golden) = Golden::open("fedproto") else { return };
    let mut server = MeanPrototypes { known: stored(&golden, "before", "before.known"), dim: 6 };
    let (counts, local) = (golden.i64("n"), golden.f64("local"));
    let reports = counts.iter().zip(local.chunks(6)).enumerate();
    let report = |(at, (count, mean)): (usize, (&i64, &[f64]))| ClassMean {
        row: 3 + (at % 5) as u32,
        count: *count as u64,
        mean: mean.to_vec(),
    };
    server.take(&reports.map(report).collect::<Vec<_>>(), PrototypeWeighting::BySamples);
    golden.assert_close_f32("after", &server.table(&view()));
    let flags = server.flags(&view());
    let known: Vec<f64> = (0..5).map(|at| f64::from(flags[0] >> at & 1)).collect();
    golden.assert_close("after.known", &known);
}

fn report(row: u32, rows: &[[f64; 2]]) -> ClassMean {
    let DiagonalGaussian { count, mean, .. } = DiagonalGaussian::fit(2, rows.iter());
    ClassMean { row, count, mean }
}

fn taken(reports: &[ClassMean]) -> BTreeMap<u32, Vec<f32>> {
    let mut server = MeanPrototypes { known: BTreeMap::new(), dim: 2 };
    server.take(reports, PrototypeWeighting::BySamples);
    server.known
}

/// FedProto card, invariants 2 and 5: the prototype is the mean of all features together, however clients divide them
/// and in whichever order they come; of clients that say the same it is what they say.
#[test]
fn a_prototype_is_the_mean_of_all_features() {
    let rows = [[1.0, 0.0], [2.0, -4.0], [6.0, 1.0], [-1.0, 9.0], [0.5, 0.25]];
    let whole = taken(&[report(4, &rows)]);
    assert_eq!(whole[&4], [1.7, 1.25]);
    for cuts in [[1, 2], [2, 4], [1, 4]] {
        let mut parts = vec![
            report(4, &rows[..cuts[0]]),
            report(4, &rows[cuts[0]..cuts[1]]),
            report(4, &rows[cuts[1]..]),
        ];
        for _ in 0..2 {
            for (found, wanted) in taken(&parts)[&4].iter().zip(&whole[&4]) {
                assert!((found - wanted).abs() < 1e-6, "{cuts:?}");
            }
            parts.reverse();
        }
    }
    let same = report(4, &rows);
    assert_eq!(taken(&[same.clone(), same.clone(), same]), whole);
}

/// The authors' code, lib/utils.py: the plain mean over the clients that report the class, whatever their counts; a
/// report of no sample has no weight in either form.
#[test]
fn uniform_weights_count_clients_and_not_samples() {
    let none = ClassMean { row: 4, count: 0, mean: vec![9.0; 2] };
    let reports = [report(4, &[[1.0, 0.0]; 3]), report(4, &[[5.0, 4.0]]), none];
    let of = |weighting| {
        let mut server = MeanPrototypes { known: BTreeMap::new(), dim: 2 };
        server.take(&reports, weighting);
        server.known[&4].clone()
    };
    assert_eq!(of(PrototypeWeighting::Uniform), [3.0, 2.0]);
    assert_eq!(of(PrototypeWeighting::BySamples), [2.0, 1.0]);
}

/// Section 6: a report of a class replaces its prototype, and a class that no client reports keeps what it had.
#[test]
fn an_unreported_class_keeps_its_prototype() {
    let mut server = MeanPrototypes { known: BTreeMap::new(), dim: 2 };
    let by_samples = PrototypeWeighting::BySamples;
    server.take(&[report(3, &[[1.0, 1.0]]), report(6, &[[2.0, 0.0]])], by_samples);
    let empty = ClassMean { row: 7, count: 0, mean: vec![0.0; 2] };
    server.take(&[report(6, &[[4.0, 4.0]]), empty], by_samples);
    assert_eq!(server.flags(&view()), [0b01001]);
    let table = [[1.0, 1.0], [0.0; 2], [0.0; 2], [4.0, 4.0], [0.0; 2]].concat();
    assert_eq!(server.table(&view()), table);

    let mut body = server.save();
    assert_eq!(MeanPrototypes::load(&body).unwrap(), server);
    body.meta.pop();
    assert!(MeanPrototypes::load(&body).is_err());
}

/// Flags survive a round trip, for more classes than a byte has bits.
#[test]
fn flags_say_which_classes_have_a_prototype() {
    let wide = TaskView { task: TaskId(0), rows: 20..31, classes: (20..31).collect() };
    let mut server = MeanPrototypes { known: BTreeMap::new(), dim: 2 };
    let reports = [20, 27, 28, 30].map(|row| report(row, &[[f64::from(row), 1.0]]));
    server.take(&reports, PrototypeWeighting::BySamples);
    let table = NamedTensor::f32(PROTOTYPES, [11, 2], server.table(&wide)).unwrap();
    let download = Message {
        control: server.flags(&wide),
        extra: vec![Section::new(Kind::Prototypes, vec![table])],
        ..Message::default()
    };
    let wanted = server.known.clone().into_iter().collect::<ClassPrototypes>();
    assert_eq!(MeanPrototypes::from_download(&download, &wide).unwrap(), wanted);
    assert!(MeanPrototypes::from_download(&Message::default(), &wide).unwrap().is_empty());
    assert!(
        MeanPrototypes::from_download(&Message { control: vec![0], ..download }, &wide).is_err()
    );
}
