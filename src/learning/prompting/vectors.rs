//! What prompts are chosen and weighted by, against the package's own vectors.

use super::*;
use crate::golden::Golden;
use crate::model::prompts::{cosines, selection};
use crate::model::{Pooling, PromptPosition};

#[test]
fn golden_own_selection_of_prompts_and_experts() {
    let golden = Golden::own("selection");
    let (queries, keys) = (golden.tensor("queries"), golden.variable("keys"));
    let similar = cosines(&queries, &keys).unwrap();
    golden.assert_tensor("cosines", &similar);
    golden.assert_close("l2p.best", &selection(&similar, 2).unwrap().concat());
    let pool = |name: &str| -> PromptTensors {
        [(name.to_owned(), keys.as_tensor().clone())].into_iter().collect()
    };
    let (position, pooling) = (PromptPosition::ClsCopy, Pooling::ClsAndPrompts);
    let best = SelectedPrompts { top: 2, length: 3, pull: 0.1, position, pooling };
    let pull = best.loss(&pool(KEYS), &queries).unwrap().expect("it pulls");
    golden.assert_loss("l2p.pull", &pull, &keys);

    let expert = Expert::Nearest(1..4);
    let layout = ExpertLayout::Own;
    let experts = Experts { general: 0..0, experts: 0..1, expert, pull: 1.0, layout };
    let nearest = experts.nearest(&keys, &queries, &(1..4)).unwrap();
    golden.assert_close("dualprompt.expert", &nearest.to_vec1::<u32>().unwrap());
    let given = Experts { expert: Expert::Given(2), ..experts };
    let pull = given.loss(&pool(EXPERT_KEYS), &queries).unwrap().expect("it pulls");
    golden.assert_loss("dualprompt.pull", &pull, &keys);
}

#[test]
fn golden_own_weights_of_components() {
    let golden = Golden::own("selection");
    let queries = golden.tensor("queries");
    let parts = [
        (ComponentPart::Attention, golden.variable("attention")),
        (ComponentPart::Key, golden.variable("keys")),
        (ComponentPart::Prompt, golden.variable("prompts")),
    ];
    let pool: PromptTensors = (parts.iter())
        .map(|(part, variable)| (part.name(0), variable.as_tensor().clone()))
        .collect();
    let plain = Components { blocks: 0..1, used: 4, trained: 2..4, penalty: 0.0, softmax: false };
    golden.assert_tensor("coda.weights", &plain.weights(&pool, 0, &queries).unwrap());
    let soft = Components { softmax: true, ..plain.clone() };
    golden.assert_tensor("coda.softmax", &soft.weights(&pool, 0, &queries).unwrap());
    let prompt = plain.prompt(&pool, 0, &queries).unwrap();
    golden.assert_tensor("coda.prompt", &prompt);
    let loss = (prompt * golden.tensor("mix")).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    for ((_, variable), name) in parts.iter().zip(["attention", "keys", "prompts"]) {
        let slope = gradients.get(variable).unwrap().narrow(0, 0, 4).unwrap();
        golden.assert_tensor(&format!("coda.grad_{name}"), &slope);
    }
    // One part of the penalty: the others are constants here.
    let rows = parts[2].1.narrow(0, 0, 4).unwrap();
    let penalty = crate::model::prompts::orthogonality(&rows).unwrap();
    golden.assert_loss("coda.penalty", &penalty, &parts[2].1);
}
