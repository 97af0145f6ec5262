//! Tokenizers: one token per character, or the word pieces of a pretrained encoder.

use std::sync::Arc;

use super::WordPieces;
use crate::data::DataError;

/// Rule that turns text into tokens.
///
/// Every sequence has a start and an end token, and is padded with 0.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// One token per character: printable ASCII and the end of a line; anything else is unknown.
    Characters,
    /// A vocabulary of word pieces.
    WordPieces(Arc<WordPieces>),
}

/// Token that pads short sequences.
const PADDING: u32 = 0;
/// Tokens of the character rule: unknown character, start and end of a text, first character.
const UNKNOWN: u32 = 1;
const FRONT: u32 = 2;
const BEHIND: u32 = 3;
const FIRST: u32 = 4;

impl Tokenizer {
    /// Number of tokens of [`Tokenizer::Characters`], special ones included.
    pub const CHARACTERS: usize = FIRST as usize + 96;
    /// Number of start and end tokens of a sequence.
    pub const FRAME: usize = 2;

    /// Returns `length` tokens of `text`. A text that is too long loses its beginning.
    ///
    /// # Errors
    /// Returns an error if the rules of a `tokenizer.json` cannot split the text.
    pub fn encode(&self, text: &[char], length: usize) -> Result<Vec<u32>, DataError> {
        let (mut tokens, front, behind) = match self {
            Tokenizer::Characters => {
                (text.iter().map(|c| character(*c)).collect::<Vec<_>>(), FRONT, BEHIND)
            }
            Tokenizer::WordPieces(pieces) => {
                let text: String = text.iter().collect();
                (pieces.encode(&text)?, pieces.front(), pieces.behind())
            }
        };
        let room = length.saturating_sub(Tokenizer::FRAME);
        tokens.drain(..tokens.len().saturating_sub(room));
        let mut framed = [&[front], tokens.as_slice(), &[behind]].concat();
        framed.resize(length, PADDING);
        Ok(framed)
    }
}

/// Returns the token of a character: the end of a line first, then printable ASCII from the space on.
fn character(c: char) -> u32 {
    match c {
        '\n' => FIRST,
        ' '..='~' => FIRST + 1 + (c as u32 - ' ' as u32),
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{CHARACTER_TOKENS, TextSection};

    #[test]
    fn characters_are_framed_filled_and_cut_in_front() {
        let encode = |text: &str, length| {
            let text: Vec<char> = text.chars().collect();
            Tokenizer::Characters.encode(&text, length).unwrap()
        };
        assert_eq!(encode("a b", 7), [2, 4 + 1 + 65, 5, 4 + 1 + 66, 3, 0, 0]);
        assert_eq!(encode("xy\n\u{e9}", 4), [2, 4, 1, 3], "the end counts");
        assert_eq!(encode("~", 3)[1] as usize + 1, Tokenizer::CHARACTERS);
    }

    #[test]
    fn scenarios_are_checked_for_these_numbers() {
        assert_eq!(CHARACTER_TOKENS as usize, Tokenizer::CHARACTERS);
        let text = TextSection::default();
        assert_eq!((text.tokens() - text.sequence_length) as usize, Tokenizer::FRAME);
    }
}
