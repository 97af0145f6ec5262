//! Requirements of FedCIL on a scenario.

use super::{FedCil, LastGenerator, MomentSpan};
use crate::methods::averaging::Requirement;
use crate::model::GanForm;
use crate::scenario::{DataSource, Normalize, RequirementError, Scenario};

/// Smallest image side for the form `mnist`, which halves images three times by windows of 4.
const SMALLEST: u32 = 8;

impl FedCil {
    pub(super) fn requirements_of(&self) -> Vec<Requirement> {
        let mut requirements = vec![images(), self.noise_for_classes(), self.sides()];
        if !self.is_stateless() {
            let why = "clients keep generators and moments, but fresh clients have none";
            let instead = match (self.last_generator, self.moments) {
                (LastGenerator::Server, _) => "`method.moments = \"round\"`",
                (_, MomentSpan::Round) => "`method.last_generator = \"server\"`",
                _ => "`method.last_generator = \"server\"` and `method.moments = \"round\"`",
            };
            requirements.push(Requirement::returning_clients(why, Some(instead)));
        }
        requirements
    }

    /// Requires noise that is wider than the number of classes.
    fn noise_for_classes(&self) -> Requirement {
        let noise = self.noise;
        let violation = move |scenario: &Scenario| {
            let classes = scenario.data.classes()?;
            (noise <= classes).then(|| {
                let message = format!(
                    "the first numbers of the noise are the class, one-hot: {classes} of {noise} \
                     leave no noise"
                );
                let help = format!("set `method.noise = {}`", classes + 100);
                RequirementError::new("method.noise", message, "as narrow as the classes", help)
            })
        };
        Requirement::new(violation).summarized("noise that is wider than there are classes")
    }

    /// Requires images that the form `mnist` can halve three times.
    fn sides(&self) -> Requirement {
        let form = self.gan;
        Requirement::new(move |scenario| {
            let side = scenario.data.output();
            (form == GanForm::Mnist && side < SMALLEST).then(|| {
                let message = "the discriminator halves images three times, by windows of 4";
                let label = format!("{side} pixels a side");
                let help = "resize images to 8 pixels or more, or set `method.gan = \"cifar\"`";
                RequirementError::new("method.gan", message, label, help)
            })
        })
    }
}

/// Requires images with values from -1 to 1, as a generator makes them.
fn images() -> Requirement {
    let violation = |scenario: &Scenario| {
        let source = &scenario.data.source;
        if *source == DataSource::Play || source.is_rows() {
            let message = "a generator makes images";
            let help = "choose a data set of images";
            return Some(RequirementError::new("data.source", message, "no images", help));
        }
        let sections = [
            ("data.train.normalize", &scenario.data.train),
            ("data.test.normalize", &scenario.data.test),
        ];
        let (key, _) =
            sections.into_iter().find(|(_, section)| section.normalize != Normalize::Half)?;
        let message = "a generator makes images of values from -1 to 1";
        let help = format!("set `{key} = \"half\"`");
        Some(RequirementError::new(key, message, "other values", help))
    };
    Requirement::new(violation)
        .summarized("images, with values from -1 to 1 (normalize = \"half\")")
}
