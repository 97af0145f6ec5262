//! Note about stated sizes that differ from the data.

use crate::data::Dataset;
use crate::scenario::{DataSection, DataSource, NominalSizes};

impl Dataset {
    /// Adds a note if `data.nominal` states sizes that the data do not have.
    ///
    /// Plans rely on stated sizes without reading the data. Plays are not compared, as their stated sizes may be rough,
    /// nor are subsets of classes that differ in size, as the number of samples they keep is unknown.
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
