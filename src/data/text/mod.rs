//! Text: plays as labelled windows of characters, and how characters become tokens.

pub(crate) mod play;
mod tokeniser;
mod word_pieces;

pub use play::PlayOptions;
pub use tokeniser::Tokeniser;
pub use word_pieces::WordPieces;
