//! `[data.text]`: samples of a play: the characters seen, and the one that is the class.

use serde::Serialize;

use super::reader::Keys;

/// Samples of a play.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct TextSection {
    /// Characters per sample.
    #[key(default = 80, at_least = 1.0, at_most = 4096.0, source = "LEAF")]
    pub sequence_length: u32,
    /// Characters from one sample to the next.
    #[key(default = 8, at_least = 1.0)]
    pub stride: u32,
    /// Number of classes: the most frequent characters.
    #[key(default = 36, at_least = 2.0, at_most = 65_536.0)]
    pub vocabulary_size: u32,
    /// Capitals as small letters.
    #[key(default = true)]
    pub lowercase: bool,
    /// Fraction of a speaker's text that is tested, at its end.
    #[key(default = 0.2, above = 0.0, below = 1.0)]
    pub test: f64,
}

/// Number of tokens of characters, if a network reads one token per character.
pub const CHARACTER_TOKENS: u32 = 100;

/// Number of tokens around a sequence: one before it and one after it.
const FRAME: u32 = 2;

impl TextSection {
    /// Returns the tokens of a sample, at most one per character.
    pub fn tokens(&self) -> u32 {
        self.sequence_length + FRAME
    }
}
