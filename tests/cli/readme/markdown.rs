//! Pages as their tests need them: blocks, code spans, links and headings of a Markdown file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file below the root.
pub fn read(name: &str) -> String {
    crate::command::read(root().join(name))
}

/// Files of a folder below the root with this ending, by name.
pub fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|e| e == ending));
    let name = |path: PathBuf| format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
    let mut names: Vec<String> = paths.map(name).collect();
    names.sort();
    names
}

/// Link definitions that rustdoc reads before every page; not a page itself.
pub const RUSTDOC_LINKS: &str = "src/guide/links.md";

/// README, the guide, the pages of studies.
pub fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    names.extend(files("src/guide", "md").into_iter().filter(|name| name != RUSTDOC_LINKS));
    names.extend(files("scenarios/studies", "md"));
    names.into_iter().map(|name| Page { text: read(&name), name }).collect()
}

/// A Markdown file.
pub struct Page {
    /// Below the root.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl Page {
    /// Lines with whether they are within a block, and of which language.
    fn lines(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let mut language = None;
        self.text.lines().filter_map(move |line| {
            match (line.trim().strip_prefix("```"), language) {
                (Some(_), Some(_)) => language = None,
                (Some(word), None) => language = Some(word),
                (None, _) => return Some((language, line)),
            }
            None
        })
    }

    /// Everything outside of blocks.
    pub fn prose(&self) -> String {
        let lines = self.lines().filter(|(language, _)| language.is_none());
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// The blocks of a language.
    pub fn blocks<'a>(&'a self, language: &str) -> impl Iterator<Item = String> + use<'a> {
        let open = format!("```{language}\n");
        let parts: Vec<&str> = self.text.split(open.as_str()).skip(1).collect();
        parts.into_iter().map(|part| part.split("```").next().unwrap_or_default().to_owned())
    }

    /// Commands of `sh` blocks: continuation lines joined, without comments and loops.
    pub fn shell_lines(&self) -> Vec<String> {
        let text: String = self.blocks("sh").collect();
        let text = text.replace("\\\n", " ");
        let commands = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim());
        let commands = commands.filter(|line| {
            let loops = line.starts_with("for ") || *line == "done";
            !line.is_empty() && !line.starts_with('#') && !loops
        });
        commands.map(str::to_owned).collect()
    }

    /// Returns the texts between single backticks outside of blocks.
    pub fn code_spans(&self) -> Vec<String> {
        // A span may go over the end of a line, but not over that of a paragraph or a row.
        let prose = self.prose();
        let paragraphs = prose.split("\n\n").flat_map(|part| match part.starts_with('|') {
            true => part.lines().collect(),
            false => vec![part],
        });
        let spans = paragraphs.flat_map(|part| part.split('`').skip(1).step_by(2));
        spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Definitions `[label]: target` of links, by label.
    pub fn definitions(&self) -> BTreeMap<String, String> {
        let prose = self.prose();
        let lines = prose.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
        lines.map(|(label, target)| (label.to_owned(), target.to_owned())).collect()
    }

    /// Targets of inline links.
    pub fn inline_links(&self) -> Vec<String> {
        let prose = self.prose();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.map(str::to_owned).collect()
    }

    /// Labels of links `[text][label]`.
    pub fn labels(&self) -> Vec<String> {
        let prose = self.prose().replace('\n', " ");
        let labels = prose.split("][").skip(1).filter_map(|rest| rest.split(']').next());
        labels.map(str::to_owned).collect()
    }

    /// Headings as the anchors that code hosts and rustdoc make of them.
    pub fn anchors(&self) -> Vec<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }

    /// The text below a heading of the third level, up to the next one.
    pub fn section(&self, heading: &str) -> Option<Page> {
        let (_, rest) = self.text.split_once(&format!("\n### {heading}\n"))?;
        let text = rest.split("\n### ").next().unwrap_or(rest).to_owned();
        Some(Page { name: format!("{}, {heading}", self.name), text })
    }
}

fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase().replace(' ', "-");
    letters.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}
