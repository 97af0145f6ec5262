//! The note about stated sizes that the data do not have.

use crate::data::Dataset;
use crate::scenario::{DataSection, DataSource, NominalSizes};

impl Dataset {
    /// Returns the data set with a note if `data.nominal` states other sizes.
    ///
    /// Plans count stated sizes without a look at the data, except those of a play, whose stated sizes may be rough. Of
    /// classes of unlike sizes a subset keeps an unknown number, which is not compared.
    pub(super) fn noting_other_sizes(mut self, section: &DataSection) -> Dataset {
        let Some(stated) = section.nominal.filter(|_| section.source != DataSource::Play) else {
            return self;
        };
        let differs =
            |kept: Option<u32>, stated: u32, has: usize| kept.is_none() && stated as usize != has;
        let NominalSizes { classes, train, test } = stated;
        if classes as usize != self.classes()
            || differs(section.subset, train, self.train.len())
            || differs(section.test_subset, test, self.test.len())
        {
            self.notes.push(format!(
                "data.nominal states {classes} classes, {train} training and {test} test samples, but the data have {} \
                 classes, {} and {}; plans count the stated ones: correct them, or keep fewer samples with data.subset \
                 and data.test_subset",
                self.classes(),
                self.train.len(),
                self.test.len(),
            ));
        }
        self
    }
}
