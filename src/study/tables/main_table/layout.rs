//! Arrangement of the main table in print.

use crate::study::{Point, Study};

/// Arrangement of a table in print.
#[derive(Clone, Debug, Default)]
pub(super) struct LatexLayout {
    /// Axis whose arms are columns, if there are several axes.
    pub columns: Option<LatexColumns>,
    /// Names of the other axes.
    pub heads: Vec<String>,
    /// By row of the table: names of its arms in print, without the column's.
    pub names: Vec<Vec<String>>,
    /// Notes on rows that are not equal, with names in print.
    pub notes: Vec<String>,
}

/// Axis across the table.
#[derive(Clone, Debug)]
pub(super) struct LatexColumns {
    /// Index of the axis.
    pub axis: usize,
    /// Name of the axis.
    pub name: String,
    /// Names of its arms in print.
    pub arms: Vec<String>,
}

impl LatexLayout {
    /// Returns the arrangement of a study's rows; `compared` has the axes whose arms are compared.
    pub fn of(study: &Study, points: &[Point], compared: &[usize]) -> LatexLayout {
        let shown = |label: &str| study.report.shown(label).to_owned();
        let axis = column_axis(study, compared);
        let columns = axis.map(|axis| LatexColumns {
            axis,
            name: study.axes[axis].name.clone(),
            arms: study.axes[axis].arms.iter().map(|arm| shown(&arm.label)).collect(),
        });
        // An axis of one arm says nothing, unless there is no other.
        let several = (0..study.axes.len()).any(|at| study.axes[at].arms.len() > 1);
        let says = |at: &usize| !several || study.axes[*at].arms.len() > 1;
        let others: Vec<usize> =
            (0..study.axes.len()).filter(|at| Some(*at) != axis && says(at)).collect();
        let mut heads: Vec<String> = others.iter().map(|at| study.axes[*at].name.clone()).collect();
        if heads.is_empty() {
            heads.push("cell".to_owned());
        }
        let names = points.iter().map(|point| match point {
            Point::Grid(arms) if !others.is_empty() => {
                others.iter().map(|at| shown(&study.axes[*at].arms[arms[*at]].label)).collect()
            }
            // An extra cell has one name for all axes.
            _ => {
                let rest = others.iter().skip(1).map(|_| String::new());
                std::iter::once(study.label(point)).chain(rest).collect()
            }
        });
        LatexLayout { columns, heads, names: names.collect(), notes: Vec::new() }
    }
}

/// Returns the axis of the columns: `report.x` if its arms are not compared, else the first such axis.
fn column_axis(study: &Study, compared: &[usize]) -> Option<usize> {
    let several = |axis: &usize| study.axes[*axis].arms.len() > 1;
    if (0..study.axes.len()).filter(several).count() < 2 {
        return None;
    }
    let free: Vec<usize> =
        (0..study.axes.len()).filter(|axis| several(axis) && !compared.contains(axis)).collect();
    let x = |axis: &&usize| Some(&study.axes[**axis].name) == study.report.x.as_ref();
    free.iter().find(x).or(free.first()).copied()
}
