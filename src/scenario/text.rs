//! `[data.text]`: which characters of a play are seen, and which one is the class.

use serde::Serialize;

use super::reader::{Param, TableReader, defaults};

/// How a play becomes samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextSection {
    /// Characters that are seen. Default 80.
    pub context: u32,
    /// Characters from one sample to the next. Default 8.
    pub stride: u32,
    /// Classes: so many of the most frequent characters. Default 36.
    pub symbols: u32,
    /// Whether capitals count as small letters. Default true.
    pub fold_case: bool,
    /// Share of every speaker's text, the last of it, that is tested. Default 0.2.
    pub test: f64,
}

/// Tokens that characters can have, where a network reads one token per character.
pub const CHARACTER_TOKENS: u32 = 100;

/// Tokens in front of a sequence and behind it.
const FRAME: u32 = 2;

impl TextSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> TextSection {
        let context = Param::new("context", 80, "characters that are seen").source("LEAF");
        let stride = Param::new("stride", 8, "characters from one sample to the next");
        let symbols = Param::new("symbols", 36, "classes: the most frequent characters");
        let fold_case = Param::new("fold_case", true, "capitals count as small letters");
        let test = Param::new("test", 0.2, "share of what a speaker says that is tested, the last");
        TextSection {
            context: table.get(&context.at_least(1.0).at_most(4096.0)),
            stride: table.get(&stride.at_least(1.0)),
            symbols: table.get(&symbols.at_least(2.0).at_most(65_536.0)),
            fold_case: table.get(&fold_case),
            test: table.get(&test.above(0.0).below(1.0)),
        }
    }

    /// Tokens of a sample, at most one per character.
    pub fn tokens(&self) -> u32 {
        self.context + FRAME
    }
}

impl Default for TextSection {
    fn default() -> Self {
        defaults(TextSection::read)
    }
}
