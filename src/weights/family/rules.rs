//! Rules from the names of a family to ours.

use crate::weights::Layout;

/// The names that one program gives the tensors of one kind of network.
#[derive(Debug)]
pub struct Family {
    /// Name for messages.
    pub name: &'static str,
    /// Network that the rules lead to.
    pub network: Network,
    /// The tensor by whose name it is recognised, behind any prefix.
    pub anchor: &'static str,
    /// Rules from its names to ours.
    pub rules: &'static [Rule],
    /// Parts of the family's names, with ours, for names that no rule covers.
    ///
    /// A part that begins with a dot applies anywhere, any other at the beginning.
    pub words: &'static [(&'static str, &'static str)],
    /// Patterns of tensors whose names, with other words, are ours already; where no rule is about them.
    pub kept: &'static [&'static str],
    /// Patterns of tensors that are passed over without being asked for: they stand behind the features (a
    /// classifier, a pooler), or were used in training only.
    pub passed: &'static [&'static str],
}

/// Network that a family's rules lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A vision transformer, in timm's names.
    Vit,
    /// A residual network, in torchvision's names.
    ResNet,
    /// An encoder of text, in Hugging Face's names.
    Bert,
}

impl Network {
    /// Returns a name for messages.
    pub fn word(self) -> &'static str {
        match self {
            Network::Vit => "a vision transformer",
            Network::ResNet => "a residual network",
            Network::Bert => "a BERT",
        }
    }
}

/// Tensors of a file and the one of ours that they become; `{}` is the number of a block.
#[derive(Debug)]
pub struct Rule {
    /// Our name.
    pub to: &'static str,
    /// Its names, in the order in which they are joined.
    pub from: &'static [&'static str],
    /// Change to the tensors.
    pub layout: Layout,
    /// A vector by whose numbers the rows are multiplied afterwards, in files that have it: LayerScale, which is folded
    /// into the linear layer before it.
    pub scale: Option<&'static str>,
}

/// Returns a rule for a tensor that stays as it is.
pub(super) const fn same(from: &'static [&'static str; 1], to: &'static str) -> Rule {
    Rule { to, from, layout: Layout::Same, scale: None }
}

/// Returns a rule for a tensor that stays as it is where there is no LayerScale behind it.
pub(super) const fn scaled(
    from: &'static [&'static str; 1],
    to: &'static str,
    scale: &'static str,
) -> Rule {
    Rule { to, from, layout: Layout::Same, scale: Some(scale) }
}

/// Returns a rule with another layout.
pub(super) const fn laid(from: &'static [&'static str], to: &'static str, layout: Layout) -> Rule {
    Rule { to, from, layout, scale: None }
}

impl Family {
    /// Returns a name of this family with our words in it.
    pub(in crate::weights) fn our_words(&self, theirs: &str) -> String {
        self.words.iter().fold(theirs.to_owned(), |name, (their, our)| reworded(name, their, our))
    }

    /// Returns a name of ours with the words of this family.
    pub(in crate::weights) fn their_words(&self, ours: &str) -> String {
        self.words.iter().fold(ours.to_owned(), |name, (their, our)| reworded(name, our, their))
    }
}

fn reworded(name: String, from: &str, to: &str) -> String {
    match (from.starts_with('.'), name.strip_prefix(from)) {
        (true, _) => name.replace(from, to),
        (false, Some(rest)) => format!("{to}{rest}"),
        (false, None) => name,
    }
}
