//! Accuracy on all classes seen after each task, a line per arm, as papers draw it.

use super::curves::{Curve, PUBLISHED, panel};
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, with_spread};
use crate::page::plot::{Label, chart};
use crate::results::Arm;
use crate::study::Plot;

/// Returns a figure of accuracies after each task for each of [`PageContent::charts`].
pub fn section(content: &PageContent) -> Option<PageSection> {
    let wanted = content.plots.is_empty() || content.plots.contains(&Plot::AccuracyByTask);
    let charts = if wanted { content.charts() } else { Vec::new() };
    let charts = charts.iter().enumerate();
    let figures = charts.filter_map(|(number, (name, arms))| figure(content, number, name, arms));
    PageSection::of_figures("tasks", "Accuracy after each task", figures.collect())
}

fn figure(content: &PageContent, number: usize, name: &str, arms: &[usize]) -> Option<Figure> {
    let of =
        |curve: fn(&Arm) -> Curve| arms.iter().map(move |arm| (*arm, curve(&content.arms[*arm])));
    let curves: Vec<(usize, Curve)> =
        of(Arm::curve_by_task).filter(|(_, curve)| curve.len() > 1).collect();
    if curves.is_empty() {
        return None;
    }
    let published: Vec<(usize, Curve)> =
        of(Arm::published_curve).filter(|(_, curve)| !curve.is_empty()).collect();
    let series = |(arm, _): &(usize, Curve)| (content.curve_number(*arm), content.curve_name(*arm));
    let at = if name.is_empty() { String::new() } else { format!(", {name}") };
    let panel = panel(content, [&curves, &published], "task", Label::Count, |p| p.task as f64);
    Some(Figure {
        id: format!("task-{}", number + 1),
        title: format!("Accuracy on all classes seen, after each task{at}"),
        description: format!(
            "Mean over runs after the last tested round of a task. Bands are one sample standard deviation and end at 0 \
             and 100 %.{}",
            if published.is_empty() { "" } else { PUBLISHED }
        ),
        drawings: chart(&[panel]),
        mark: Mark::Line,
        legend: curves.iter().map(series).collect(),
        numbers: numbers(content, &curves, &published),
    })
}

fn numbers(
    content: &PageContent,
    curves: &[(usize, Curve)],
    published: &[(usize, Curve)],
) -> HtmlTable {
    let mut table = HtmlTable::new(1, ["series", "task", "accuracy (%)"]);
    for (of, curves) in [("", curves), (", published", published)] {
        for (arm, curve) in curves {
            let name = format!("{}{of}", content.curve_name(*arm));
            for point in curve {
                let percent = |share: f64| Label::Percent.exact(share);
                let accuracy = &point.accuracy;
                let value = with_spread(percent(accuracy.mean), accuracy.deviation.map(percent));
                table.arm_row(*arm, [name.clone(), point.task.to_string(), value]);
            }
        }
    }
    table
}
