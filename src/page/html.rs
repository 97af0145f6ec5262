//! Components of the page: figures with tables of their numbers, tables, legends, tints.

use maud::{Markup, PreEscaped, html};

use super::plot::{Drawing, color, dark_rules, hex, outline};

/// Drawing with title, description, legend and numbers.
pub struct Figure {
    /// Identifier, unique on the page.
    pub id: String,
    pub title: String,
    /// Description of content and reading, also for readers who cannot see the drawing.
    pub description: String,
    /// Drawings, which stand side by side where there is room.
    pub drawings: Vec<Drawing>,
    /// Numbers and names of the series.
    pub legend: Vec<(usize, String)>,
    /// Mark of the series in the legend.
    pub mark: Mark,
    /// Numbers of the drawing.
    pub numbers: HtmlTable,
}

/// Mark of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Line with points.
    Line,
    /// Filled part of a bar.
    Field,
}

/// Table: names of columns, and rows, each with one cell per column.
#[derive(Clone, Debug, Default)]
pub struct HtmlTable {
    pub head: Vec<String>,
    pub rows: Vec<Vec<HtmlCell>>,
    /// Number of columns from the left that are words; the first of them names the row.
    pub words: usize,
    /// Number of every row's arm, if all rows are of arms; otherwise empty.
    pub arms: Vec<usize>,
}

/// Columns that fit a narrow screen; a box with more says that it scrolls.
const FEW: usize = 3;

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct HtmlCell {
    pub text: String,
    pub best: bool,
    /// Numbers of the notes on the cell.
    pub notes: Vec<usize>,
}

impl<S: Into<String>> From<S> for HtmlCell {
    fn from(text: S) -> HtmlCell {
        HtmlCell { text: text.into(), best: false, notes: Vec::new() }
    }
}

impl HtmlTable {
    /// Returns an empty table whose first `words` columns are words.
    pub fn new<S: Into<String>>(words: usize, head: impl IntoIterator<Item = S>) -> HtmlTable {
        let head = head.into_iter().map(Into::into).collect();
        HtmlTable { head, rows: Vec::new(), words, arms: Vec::new() }
    }

    /// Adds a row.
    pub fn row<E: Into<HtmlCell>>(&mut self, cells: impl IntoIterator<Item = E>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a row of an arm.
    pub fn arm_row<E: Into<HtmlCell>>(&mut self, arm: usize, cells: impl IntoIterator<Item = E>) {
        self.arms.push(arm);
        self.row(cells);
    }

    /// Renders the table with a caption.
    pub fn render(&self, caption: &str) -> Markup {
        let class = |column: usize| (column < self.words).then_some("text");
        html! {
            div.wide.many[self.head.len() > FEW] tabindex="0" role="group" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead { tr { @for (at, name) in self.head.iter().enumerate() {
                        th scope="col" class=[class(at)] { (name) }
                    } } }
                    tbody { @for row in &self.rows { tr { @for (at, entry) in row.iter().enumerate() {
                        @if at == 0 {
                            th scope="row" class=[class(at)] { (entry.render()) }
                        } @else if entry.best {
                            td.best { (entry.render()) }
                        } @else {
                            td class=[class(at)] { (entry.render()) }
                        }
                    } } } }
                }
            }
        }
    }
}

impl HtmlCell {
    fn render(&self) -> Markup {
        html! {
            (self.text)
            @for note in &self.notes {
                sup { a href={ "#note-" (note) } aria-label={ "note " (note) } { "[" (note) "]" } }
            }
        }
    }
}

impl Figure {
    /// Renders the figure.
    pub fn render(&self) -> Markup {
        let id = &self.id;
        // Text stays readable on a narrow screen; only drawings with names of arms are too wide for it and scroll.
        let style = |width: &u32| {
            format!(
                "flex:1 1 {}px;min-width:min({}px,100%);max-width:{}px",
                width * 4 / 5,
                width * 3 / 4,
                width * 5 / 4
            )
        };
        let several = self.drawings.len() > 1;
        let named = |at: usize| if several { format!("{id}-{}", at + 1) } else { id.clone() };
        html! {
            figure id=(id) {
                figcaption { (self.title) }
                p { (self.description) }
                @if self.legend.len() > 1 { (legend(&self.legend, self.mark)) }
                div.plots { @for (at, (body, (width, height))) in self.drawings.iter().enumerate() {
                    svg.plot viewBox={ "0 0 " (width) " " (height) } style=(style(width)) role="img"
                        font-size="12" font-family="system-ui,sans-serif"
                        aria-labelledby={ (named(at)) "-title " (named(at)) "-text" } {
                        title id={ (named(at)) "-title" } {
                            (self.title) @if several { " (" (at + 1) " of " (self.drawings.len()) ")" }
                        }
                        desc id={ (named(at)) "-text" } { (self.description) }
                        (PreEscaped(body))
                    }
                } }
                details {
                    summary { "Numbers of this figure" }
                    (self.numbers.render(&self.title))
                }
            }
        }
    }
}

fn legend(series: &[(usize, String)], mark: Mark) -> Markup {
    html! {
        ul.legend aria-label="Legend" {
            @for (number, name) in series {
                li { (key(*number, mark)) (name) }
            }
        }
    }
}

/// Renders the mark of a series.
fn key(number: usize, mark: Mark) -> Markup {
    let color = hex(color(number));
    if mark == Mark::Field {
        return html! {
            svg viewBox="0 0 24 12" aria-hidden="true" {
                rect fill=(color) x="2" y="0" width="20" height="12" {}
            }
        };
    }
    let corners: Vec<String> =
        outline(number).into_iter().map(|(x, y)| format!("{},{}", x + 12, y + 6)).collect();
    html! {
        svg viewBox="0 0 24 12" aria-hidden="true" {
            polyline fill="none" stroke=(color) stroke-width="2" points="0,6 24,6" {}
            polygon fill=(color) points=(corners.join(" ")) {}
        }
    }
}

/// Number of tints of cells, from none to the deepest.
const TINTS: usize = 20;

/// Returns the class of a cell that is tinted by a fraction: the higher, the deeper.
pub fn tint(share: f64) -> String {
    format!("h{}", (TINTS as f64 * share.clamp(0.0, 1.0)).round())
}

/// Returns the style sheet.
pub fn style() -> String {
    // Text stays readable on the deepest tint, light and dark.
    let depth = |tint: usize| 0.55 * tint as f64 / TINTS as f64;
    let tints = (1..=TINTS)
        .map(|tint| format!(".h{tint}{{background:rgba(var(--heat),{:.2})}}\n", depth(tint)));
    include_str!("style.css").replace("DARK", &dark_rules()) + &tints.collect::<String>()
}

/// Returns text as a part of an identifier.
pub fn slug(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect()
}

/// Returns mean and deviation as text, such as `90.58 ± 0.71`.
pub fn with_spread(mean: String, deviation: Option<String>) -> String {
    deviation.map_or(mean.clone(), |deviation| format!("{mean} ± {deviation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_is_escaped_and_tables_have_scopes() {
        let mut table = HtmlTable::new(1, ["name", "<b>"]);
        table.row(["<script>", "1"]);
        let text = table.render("a & b").into_string();
        assert!(text.contains("&lt;script&gt;") && text.contains("&lt;b&gt;"));
        assert!(text.contains("a &amp; b") && !text.contains("<script>"));
        assert!(text.contains("<th scope=\"row\" class=\"text\">"), "{text}");
        assert!(text.contains("<th scope=\"col\">"), "{text}");
    }

    #[test]
    fn only_tables_of_many_columns_say_that_they_scroll() {
        let few = HtmlTable::new(1, ["a", "b", "c"]).render("").into_string();
        let many = HtmlTable::new(1, ["a", "b", "c", "d"]).render("").into_string();
        assert!(few.contains("class=\"wide\"") && many.contains("class=\"wide many\""), "{many}");
        assert!(style().contains(".many caption::after"));
    }

    #[test]
    fn drawings_of_a_figure_have_names_of_their_own() {
        let figure = |count: usize| Figure {
            id: "curve-1".to_owned(),
            title: "A".to_owned(),
            description: "b".to_owned(),
            drawings: vec![("<path/>".to_owned(), (380, 320)); count],
            mark: Mark::Line,
            legend: Vec::new(),
            numbers: HtmlTable::new(1, ["series"]),
        };
        let text = figure(2).render().into_string();
        assert_eq!(text.matches("<svg class=\"plot\"").count(), 2);
        assert!(text.contains("<title id=\"curve-1-2-title\">A (2 of 2)</title>"), "{text}");
        // No drawing is wider than the screen because of its least width.
        assert!(text.contains("min-width:min(285px,100%)"), "{text}");
        assert!(figure(1).render().into_string().contains("<title id=\"curve-1-title\">A</title>"));
    }

    #[test]
    fn tints_grow_and_end() {
        assert_eq!([0.0, 0.5, 1.0, 2.0].map(tint), ["h0", "h10", "h20", "h20"]);
        assert!(style().contains(".h20{background:rgba(var(--heat),0.55)}"));
        assert_eq!(slug("clients=10, A"), "clients-10--a");
    }
}
