//! `paired.csv`: differences of every cell from its baseline, paired by seed.

use super::{point_cells, point_columns};
use crate::report::column::CellType;
use crate::results::{Metric, Paired, Table, TableCell, holm};
use crate::study::collect::Outcomes;
use crate::study::{Baseline, Point, Study};

/// Difference of a cell from its baseline in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct CellDifference {
    /// Point that is compared.
    pub point: Point,
    /// Baseline of the point.
    pub against: Point,
    /// Metric of the difference.
    pub metric: Metric,
    /// Paired differences `point - against`, in base units.
    pub paired: Paired,
    /// The p value, corrected by Holm's method for the number of tests of this metric.
    pub p_holm: Option<f64>,
}

/// Returns the differences of every cell that has a baseline, in every metric with pairs.
pub fn differences(study: &Study, outcomes: &Outcomes) -> Vec<CellDifference> {
    let points = study.points();
    let mut differences = Vec::new();
    for point in &points {
        let Some(against) = baseline(study, point).filter(|base| points.contains(base)) else {
            continue;
        };
        for metric in &study.compare.metrics {
            let other = outcomes.figures(&against, metric);
            let pairs: Vec<(f64, f64)> = outcomes
                .figures(point, metric)
                .iter()
                .filter_map(|(seed, one)| {
                    Some((*one, other.iter().find(|pair| pair.0 == *seed)?.1))
                })
                .collect();
            if let Some(paired) = Paired::of(&pairs) {
                let (point, against) = (point.clone(), against.clone());
                let metric = metric.clone();
                differences.push(CellDifference { point, against, metric, paired, p_holm: None });
            }
        }
    }
    for metric in &study.compare.metrics {
        let mut tests: Vec<&mut CellDifference> =
            differences.iter_mut().filter(|one| one.metric == *metric).collect();
        let values: Vec<Option<f64>> = tests.iter().map(|one| one.paired.p).collect();
        tests.iter_mut().zip(holm(&values)).for_each(|(one, p)| one.p_holm = p);
    }
    differences
}

/// Returns the baseline of a point; `None` for the baseline itself and for points without one.
fn baseline(study: &Study, point: &Point) -> Option<Point> {
    let against = match (study.compare.baseline.as_ref()?, point) {
        (Baseline::Arms(picks), Point::Grid(arms)) => {
            let mut arms = arms.clone();
            picks.iter().for_each(|pick| arms[pick.axis] = pick.arm);
            Point::Grid(arms)
        }
        // An extra cell has no arms, so only a baseline that is one cell applies to it.
        (Baseline::Arms(picks), Point::Extra(_)) => {
            let arm = |axis| picks.iter().find(|pick| pick.axis == axis).map(|pick| pick.arm);
            Point::Grid((0..study.axes.len()).map(arm).collect::<Option<_>>()?)
        }
        (Baseline::Extra(label), _) => {
            Point::Extra(study.extras.iter().position(|extra| extra.label == *label)?)
        }
    };
    (against != *point).then_some(against)
}

pub(super) fn table(study: &Study, differences: &[CellDifference]) -> Table {
    let mut columns = point_columns(study);
    for name in ["against", "metric"] {
        columns.push((name.to_owned(), CellType::Text));
    }
    for name in ["mean", "sd", "low95", "high95", "p", "p_holm"] {
        columns.push((name.to_owned(), CellType::Float));
    }
    columns.push(("test".to_owned(), CellType::Text));
    columns.push(("n".to_owned(), CellType::Int));
    let mut table = Table::new(columns);
    for CellDifference { point, against, metric, paired, p_holm } in differences {
        let mut row = point_cells(study, point);
        row.push(TableCell::Text(study.label(against)));
        row.push(metric.name().into());
        row.push(TableCell::Number(paired.mean));
        row.push(paired.deviation.into());
        row.push(paired.interval.map(|interval| interval.0).into());
        row.push(paired.interval.map(|interval| interval.1).into());
        row.push(paired.p.into());
        row.push((*p_holm).into());
        row.push(Paired::TEST.into());
        row.push(TableCell::Integer(paired.n as i64));
        table.push(row);
    }
    table
}

/// Formats the differences as the second table of `table.md`.
pub(super) fn to_markdown(study: &Study, differences: &[CellDifference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\nDifferences, paired by seed (95 % interval of the mean by Student's t; p corrected by Holm's method for the \
         tests of a metric):\n\n\
         | cell | against | metric | mean | 95 % | p (Holm) | n |\n|---|---|---|---:|---:|---:|---:|\n",
    );
    for CellDifference { point, against, metric, paired, p_holm } in differences {
        let show = |value: f64| metric.show(value);
        let interval = paired
            .interval
            .map_or_else(String::new, |(low, high)| format!("{} to {}", show(low), show(high)));
        let p = p_holm.map_or_else(String::new, Paired::show_p);
        text.push_str(&format!(
            "| {} | {} | {} | {} | {interval} | {p} | {} |\n",
            study.label(point).replace('|', "\\|"),
            study.label(against).replace('|', "\\|"),
            metric.heading(),
            show(paired.mean),
            paired.n
        ));
    }
    text
}
