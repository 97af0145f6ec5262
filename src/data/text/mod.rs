//! Text data: plays as labeled windows of characters, and tokenizers.

pub(crate) mod play;
mod tokenizer;
mod word_pieces;

pub use play::PlayOptions;
pub use tokenizer::Tokenizer;
pub use word_pieces::WordPieces;
