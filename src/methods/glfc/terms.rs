//! Weights of the two terms of the loss, and the keys of GLFC and LGA for them.

use super::compensation::{Balance, Groups};
use super::release::Release;
use crate::scenario::reader::{Keys, TableReader};

/// Weights of samples and of both terms of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Balance of samples, from which their weights follow.
    pub balance: Balance,
    /// Weight of the loss on labels, if there is an old model.
    pub labels: f64,
    /// Weight of the distillation from the old model.
    pub relation: f64,
    /// True if the weights of samples apply to the second term, too.
    pub weighs_relation: bool,
}

impl Terms {
    /// Reads the keys of GLFC or of LGA.
    pub(super) fn read(table: &mut TableReader<'_>, release: Release) -> Terms {
        match release {
            Release::Glfc => GlfcTerms::read(table).into(),
            Release::Lga => LgaTerms::read(table).into(),
        }
    }
}

/// Keys of GLFC.
#[derive(Keys)]
struct GlfcTerms {
    /// Weights that balance the gradients of new and learned samples.
    #[key(default = true, source = "GLFC; false in Powder's port")]
    compensate: bool,
    /// Weight of the loss on labels if there is an old model.
    #[key(default = 0.5, at_least = 0.0, source = "GLFC")]
    label_weight: f64,
    /// Weight of the distillation from the old model.
    #[key(default = 0.5, at_least = 0.0, source = "GLFC")]
    relation_weight: f64,
}

impl From<GlfcTerms> for Terms {
    fn from(keys: GlfcTerms) -> Terms {
        let balance = if keys.compensate { Balance::Learned } else { Balance::None };
        let (labels, relation) = (keys.label_weight, keys.relation_weight);
        Terms { balance, labels, relation, weighs_relation: false }
    }
}

/// Keys of LGA.
#[derive(Keys)]
struct LgaTerms {
    /// Groups of learned classes.
    #[key(default = Groups::Task, source = "the paper; the release has cumulative")]
    groups: Groups,
    /// Weight of each of the two terms if there is an old model.
    #[key(default = 1.0, at_least = 0.0, source = "the release of LGA")]
    lambda: f64,
}

impl From<LgaTerms> for Terms {
    fn from(LgaTerms { groups, lambda }: LgaTerms) -> Terms {
        let balance = Balance::Tasks(groups);
        Terms { balance, labels: lambda, relation: lambda, weighs_relation: true }
    }
}
