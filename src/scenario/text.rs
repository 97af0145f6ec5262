//! `[data.text]`: which characters of a play are seen, and which one is the class.

use serde::Serialize;

use super::reader::Keys;

/// How a play becomes samples.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct TextSection {
    /// Characters that are seen.
    #[key(default = 80, at_least = 1.0, at_most = 4096.0, source = "LEAF")]
    pub context: u32,
    /// Characters from one sample to the next.
    #[key(default = 8, at_least = 1.0)]
    pub stride: u32,
    /// Classes: the most frequent characters.
    #[key(default = 36, at_least = 2.0, at_most = 65_536.0)]
    pub symbols: u32,
    /// Capitals count as small letters.
    #[key(default = true)]
    pub fold_case: bool,
    /// Share of what a speaker says that is tested, the last.
    #[key(default = 0.2, above = 0.0, below = 1.0)]
    pub test: f64,
}

/// Tokens that characters can have, where a network reads one token per character.
pub const CHARACTER_TOKENS: u32 = 100;

/// Tokens in front of a sequence and behind it.
const FRAME: u32 = 2;

impl TextSection {
    /// Tokens of a sample, at most one per character.
    pub fn tokens(&self) -> u32 {
        self.context + FRAME
    }
}
