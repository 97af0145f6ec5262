//! Rules from the tensor names of a family to ours.

use crate::weights::Layout;

/// Tensor names that one program gives to one kind of network.
#[derive(Debug)]
pub struct Family {
    /// Name for messages.
    pub name: &'static str,
    /// Network to whose names the rules lead.
    pub network: Network,
    /// Tensor by whose name, after any prefix, the family is recognized.
    pub anchor: &'static str,
    /// Rules from the family's names to ours.
    pub rules: &'static [Rule],
    /// Parts of the family's names and their counterparts in ours, for names that no rule covers.
    ///
    /// A part that begins with a dot applies anywhere, any other at the beginning.
    pub words: &'static [(&'static str, &'static str)],
    /// Patterns of tensors that keep their names except for these parts, if no rule covers them.
    pub kept: &'static [&'static str],
    /// Patterns of tensors that are skipped without a request: layers after the features, such as a classifier or a
    /// pooler, or tensors of training only.
    pub passed: &'static [&'static str],
}

/// Network to whose names a family's rules lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Vision transformer with timm's names.
    Vit,
    /// Residual network with torchvision's names.
    ResNet,
    /// Text encoder with Hugging Face's names.
    Bert,
}

impl Network {
    /// Returns the name of the network for messages.
    pub fn word(self) -> &'static str {
        match self {
            Network::Vit => "a vision transformer",
            Network::ResNet => "a residual network",
            Network::Bert => "a BERT",
        }
    }
}

/// Tensors of a file and the tensor of ours that they become; `{}` is the number of a block.
#[derive(Debug)]
pub struct Rule {
    /// Name of our tensor.
    pub to: &'static str,
    /// Names in the family, in the order in which they are joined.
    pub from: &'static [&'static str],
    /// Change of the tensors.
    pub layout: Layout,
    /// Vector that multiplies the rows afterwards, if the file has it: LayerScale, which is folded into the linear
    /// layer before it.
    pub scale: Option<&'static str>,
}

/// Returns a rule for a tensor that does not change.
pub(super) const fn same(from: &'static [&'static str; 1], to: &'static str) -> Rule {
    Rule { to, from, layout: Layout::Same, scale: None }
}

/// Returns a rule for a tensor that does not change, unless it is followed by LayerScale.
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
    /// Returns a name of this family with its parts replaced by ours.
    pub(in crate::weights) fn our_words(&self, theirs: &str) -> String {
        self.words.iter().fold(theirs.to_owned(), |name, (their, our)| reworded(name, their, our))
    }

    /// Returns a name of ours with its parts replaced by the family's.
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
