//! Text data: plays as labeled windows of characters, and tokenizers.

pub(crate) mod play;
mod tokeniser;
mod word_pieces;

pub use play::PlayOptions;
pub use tokeniser::Tokeniser;
pub use word_pieces::WordPieces;
