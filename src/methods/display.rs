//! Names of methods as their papers write them, for tables and legends.

/// Returns the name of a method of the program as its paper writes it; other words stay as they are.
///
/// ```
/// use fedcast::methods::display_name;
///
/// assert_eq!(display_name("c2prompt"), "C²Prompt");
/// assert_eq!(display_name("mine"), "mine");
/// ```
pub fn display_name(name: &str) -> &str {
    NAMES.iter().find(|(known, _)| *known == name).map_or(name, |(_, shown)| shown)
}

/// Value of `method.name`, and the name in print.
const NAMES: [(&str, &str); 45] = [
    ("adapter", "Adapter"),
    ("c2prompt", "C²Prompt"),
    ("ccvr", "CCVR"),
    ("cfed", "CFeD"),
    ("coda-prompt", "CODA-Prompt"),
    ("der", "DER++"),
    ("dualprompt", "DualPrompt"),
    ("er", "ER"),
    ("ewc", "EWC"),
    ("fed-cprompt", "Fed-CPrompt"),
    ("fedadagrad", "FedAdagrad"),
    ("fedadam", "FedAdam"),
    ("fedavg", "FedAvg"),
    ("fedavg-prompt", "FedAvg-Prompt"),
    ("fedavgm", "FedAvgM"),
    ("fedcil", "FedCIL"),
    ("feddc", "FedDC"),
    ("fedhaf", "FedHAF"),
    ("fedlwf-2t", "FedLwF-2T"),
    ("fedlwf-mc", "FedLwF-MC"),
    ("fedproto", "FedProto"),
    ("fedprox", "FedProx"),
    ("fedweit", "FedWEIT"),
    ("fedyogi", "FedYogi"),
    ("fisheravg", "FisherAVG"),
    ("glfc", "GLFC"),
    ("gradma", "GradMA"),
    ("hepco", "HePCo"),
    ("hgp", "HGP"),
    ("icarl", "iCaRL"),
    ("joint", "Joint"),
    ("l2p", "L2P"),
    ("lander", "LANDER"),
    ("lga", "LGA"),
    ("lorm", "LoRM"),
    ("lwf", "LwF"),
    ("mfcl", "MFCL"),
    ("oracle", "Oracle"),
    ("pilora", "PILoRA"),
    ("pip", "PIP"),
    ("powder", "Powder"),
    ("regmean", "RegMean"),
    ("scaffold", "SCAFFOLD"),
    ("stsa", "STSA"),
    ("stsa-e", "STSA-E"),
    ("target", "TARGET"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::Registry;

    #[test]
    fn every_method_has_a_name_in_print() {
        let registry = Registry::builtin();
        assert_eq!(registry.all().len(), NAMES.len());
        for entry in registry.all() {
            let shown = display_name(entry.name);
            // A paper's name is the key with other letters and signs.
            let bare = |text: &str| {
                let text = text.to_lowercase().replace('²', "2");
                text.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
            };
            assert_ne!(shown, entry.name, "no name in print");
            assert_eq!(bare(shown), bare(entry.name));
        }
    }
}
