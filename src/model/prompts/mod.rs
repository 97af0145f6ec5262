//! Algebra of prompts that depend on a query: cosines, weighted sums, selections, orthogonality.
//!
//! A query is the feature `(d)` that the unprompted frozen transformer gives for an image; it carries
//! no gradient. Everything here is a differentiable composition or works on plain numbers.
//!
//! | what | used by |
//! |---|---|
//! | [`cosines`], [`selection`] | L2P (the best N prompts), DualPrompt (the best expert) |
//! | [`cosines`], [`weighted`] | HePCo (all prompts, weighted) |
//! | [`attended_cosines`], [`weighted`] | CODA-Prompt, Fed-CPrompt |
//! | [`gram_schmidt`], [`orthogonality`] | CODA-Prompt: start of a task, penalty |

mod cosine;
mod orthogonal;
mod select;

pub use cosine::{attended_cosines, cosines, weighted};
pub use orthogonal::{gram_schmidt, orthogonality};
pub use select::{best, selection};
