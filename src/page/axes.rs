//! Order of arms, the axis shown horizontally in figures, and the baseline of every arm.

use super::options::ReportOptions;
use crate::results::Arm;

/// Sorts arms by axis: numbers by size, words in order of first appearance.
pub(super) fn arrange(arms: &mut Vec<Arm>, labels: &mut Vec<String>) {
    let mut order: Vec<usize> = (0..arms.len()).collect();
    let mut names = axes(arms);
    // Extra cells come last.
    names.sort_by_key(|axis| axis == Arm::CELL);
    let known: Vec<Vec<String>> = names.iter().map(|axis| values(arms, axis)).collect();
    let place = |arm: usize| -> Vec<usize> {
        let of = |(axis, known): (&String, &Vec<String>)| {
            let value = arms[arm].axis(axis);
            known.iter().position(|known| Some(known.as_str()) == value).unwrap_or(usize::MAX)
        };
        names.iter().zip(&known).map(of).collect()
    };
    order.sort_by_key(|arm| place(*arm));
    *labels = order.iter().map(|arm| labels[*arm].clone()).collect();
    *arms = order.iter().map(|arm| arms[*arm].clone()).collect();
}

/// Returns the axes that any arm has, in order of first appearance.
pub(super) fn axes(arms: &[Arm]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (axis, _) in arms.iter().flat_map(|arm| &arm.axes) {
        if !names.contains(axis) {
            names.push(axis.clone());
        }
    }
    names
}

/// Returns the values of an axis: by size if all are numbers, else in order of first appearance.
pub(super) fn values(arms: &[Arm], axis: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in arms.iter().filter_map(|arm| arm.axis(axis)) {
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }
    let number = |text: &String| text.parse::<f64>().ok();
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    values
}

/// Returns the first axis with at least two values, all numbers.
pub(super) fn numeric(arms: &[Arm]) -> Option<String> {
    let mut axes = arms.iter().flat_map(|arm| &arm.axes).map(|(axis, _)| axis.clone());
    axes.find(|axis| {
        let values = values(arms, axis);
        values.len() > 1 && values.iter().all(|value| value.parse::<f64>().is_ok())
    })
}

/// Returns true if an arm lies on every axis where the baseline does, and on no other.
fn is_among(axes: &[(String, String)], against: &[(String, String)]) -> bool {
    axes.len() == against.len() && axes.iter().all(|axis| against.contains(axis))
}

/// Returns the baseline of every arm.
pub(super) fn baselines(
    arms: &[Arm],
    labels: &[String],
    options: &ReportOptions,
    x: Option<&str>,
) -> Vec<Option<usize>> {
    if let Some(label) = &options.against_label {
        let extra = labels.iter().position(|known| known == label);
        return (0..arms.len()).map(|arm| extra.filter(|extra| *extra != arm)).collect();
    }
    let mut against = options.against.clone();
    if against.is_empty() {
        // The first value of the first axis other than `x`; of `x` itself if there is no other.
        let axes = || {
            arms.iter().flat_map(|arm| &arm.axes).map(|(axis, _)| axis).filter(|a| *a != Arm::CELL)
        };
        let several = |axis: &&String| values(arms, axis).len() > 1;
        let other = axes().filter(several).find(|axis| Some(axis.as_str()) != x);
        let axis = other.or_else(|| axes().find(several));
        against.extend(
            axis.and_then(|axis| Some((axis.clone(), values(arms, axis).first()?.clone()))),
        );
    }
    let baseline = |arm: usize| {
        let mut wanted = arms[arm].axes.clone();
        for (axis, value) in &mut wanted {
            if let Some((_, other)) = against.iter().find(|(known, _)| known == axis) {
                value.clone_from(other);
            }
        }
        let named = against.iter().all(|(axis, _)| arms[arm].axis(axis).is_some());
        let is_extra = arms[arm].axis(Arm::CELL).is_some();
        let found = match is_extra {
            // A baseline that names an arm of every axis is one arm, with which extra cells are compared, too.
            true => arms.iter().position(|other| is_among(&other.axes, &against)),
            false => arms.iter().position(|other| other.axes == wanted),
        };
        found.filter(|found| (named || is_extra) && *found != arm && !against.is_empty())
    };
    (0..arms.len()).map(baseline).collect()
}
