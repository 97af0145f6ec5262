//! Tests of the choice and weights of prompts against own vectors and against results of released code.

use candle_core::Var;

use super::*;
use crate::golden::Golden;
use crate::model::prompts::{cosines, gram_schmidt, selection};
use crate::model::{Pooling, Prefix, PromptPosition};

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

/// Parts of components, each from its name there.
fn components(golden: &Golden, prefix: &str, names: [&str; 3]) -> Vec<(ComponentPart, Var)> {
    let variable = |name| golden.variable(&format!("{prefix}.{name}"));
    ComponentPart::ALL.into_iter().zip(names.map(variable)).collect()
}

fn pool_of(parts: &[(ComponentPart, Var)]) -> PromptTensors {
    parts.iter().map(|(part, own)| (part.name(0), own.as_tensor().clone())).collect()
}

/// CODA-Prompt's release in the second of three tasks: components that begin, prompts, penalty, what trains.
#[test]
fn golden_released_components() {
    let golden = Golden::own("released_coda");
    for (start, began) in [("K", "k"), ("A", "a"), ("p", "p")] {
        let old = golden.f32(&format!("start.{start}"));
        let draws = golden.f32(&format!("draw.{start}"));
        let new = gram_schmidt(&old, &draws, draws.len() / 2);
        golden.assert_close(&format!("began.{began}"), &new);
    }
    let names = ["a", "p", "k"];
    let parts = components(&golden, "now", names);
    let (pool, queries) = (pool_of(&parts), golden.tensor("queries"));
    let all = Components { blocks: 0..1, used: 4, trained: 2..4, penalty: 0.25, softmax: false };
    let prefix = all.adapt(&pool, &queries).unwrap().prefix[0].clone().expect("a prefix");
    golden.assert_tensor("keys", &prefix.keys);
    golden.assert_tensor("values", &prefix.values);
    let penalty = all.loss(&pool, &queries).unwrap().expect("a penalty");
    golden.assert_tensor("penalty", &penalty);
    let both = Tensor::cat(&[&prefix.keys, &prefix.values], 1).unwrap();
    let loss = ((both * golden.tensor("mix")).unwrap().sum_all().unwrap() + penalty).unwrap();
    golden.assert_tensor("loss", &loss);
    let gradients = loss.backward().unwrap();
    for ((part, variable), name) in parts.iter().zip(names) {
        // The components of the first task stay as they are.
        let trained = all.trained(&part.name(0), 6);
        let slope = gradients.get(variable).unwrap();
        let own = slope.narrow(0, trained.start, trained.len()).unwrap();
        let old = slope.narrow(0, 0, trained.start).unwrap().zeros_like().unwrap();
        golden.assert_tensor(&format!("grad.{name}"), &Tensor::cat(&[&old, &own], 0).unwrap());
    }
}

/// Fed-CPrompt's release: a softmax over attention.
#[test]
fn golden_released_components_with_a_softmax() {
    let golden = Golden::own("released_fed_cprompt");
    let pool = pool_of(&components(&golden, "components", ["a", "p", "k"]));
    let soft = Components { blocks: 0..1, used: 4, trained: 2..4, penalty: 0.0, softmax: true };
    let adapted = soft.adapt(&pool, &golden.tensor("queries")).unwrap();
    let prefix = adapted.prefix[0].as_ref().expect("a prefix");
    golden.assert_tensor("keys", &prefix.keys);
    golden.assert_tensor("values", &prefix.values);
}

/// L2P as fed-mammoth runs it.
#[test]
fn golden_released_selected_prompts() {
    let golden = Golden::own("released_fed_mammoth");
    let (queries, keys) = (golden.tensor("queries"), golden.variable("keys"));
    let named = [(KEYS, keys.as_tensor().clone()), (POOL, golden.tensor("l2p.pool"))];
    let pool: PromptTensors = named.into_iter().collect();
    let (position, pooling) = (PromptPosition::ClsCopy, Pooling::Prompts);
    let best = SelectedPrompts { top: 2, length: 2, pull: 0.1, position, pooling };
    let chosen = selection(&cosines(&queries, &keys).unwrap(), best.top).unwrap();
    golden.assert_close("l2p.chosen", &chosen.concat());
    let tokens = best.adapt(&pool, &queries).unwrap().tokens.expect("tokens");
    golden.assert_tensor("l2p.tokens", &tokens.tokens);
    let pull = best.loss(&pool, &queries).unwrap().expect("it pulls");
    golden.assert_loss("l2p.pull", &pull, &keys);
}

/// DualPrompt as fed-mammoth runs it, with keys and values of experts mixed up within a batch.
#[test]
fn golden_released_experts() {
    let golden = Golden::own("released_fed_mammoth");
    let (queries, keys) = (golden.tensor("queries"), golden.variable("keys"));
    // (blocks, keys and values, experts, length, d), by block (experts, 2 length, d).
    let experts = golden.tensor("dual.pool").transpose(1, 2).unwrap().contiguous().unwrap();
    let of_block = |block: usize| experts.get(block).unwrap().flatten(1, 2).unwrap();
    let named = (0..2).map(|block| (expert_name(block), of_block(block)));
    let named = named.chain([(EXPERT_KEYS.to_owned(), keys.as_tensor().clone())]);
    let pool: PromptTensors = named.collect();
    let (expert, layout) = (Expert::Given(2), ExpertLayout::Reference);
    let given = Experts { general: 0..0, experts: 0..2, expert, pull: 1.0, layout };
    let nearest = Experts { expert: Expert::Nearest(0..4), ..given.clone() };
    let chosen = nearest.nearest(&keys, &queries, &(0..4)).unwrap();
    golden.assert_close("dual.nearest", &chosen.to_vec1::<u32>().unwrap());
    for (name, experts) in [("dual.prefixes", &nearest), ("dual.prefixes_given", &given)] {
        let adapted = experts.adapt(&pool, &queries).unwrap();
        let halves = |prefix: &Option<Prefix>| {
            let prefix = prefix.as_ref().expect("a prefix");
            Tensor::stack(&[&prefix.keys, &prefix.values], 1).unwrap()
        };
        let blocks: Vec<Tensor> = adapted.prefix.iter().map(halves).collect();
        golden.assert_tensor(name, &Tensor::stack(&blocks, 0).unwrap());
    }
    let pull = given.loss(&pool, &queries).unwrap().expect("it pulls");
    golden.assert_loss("dual.pull", &pull, &keys);
}
