//! Fed-CODAP as in Powder's benchmark: client tasks side by side, each with its owner.

use std::sync::Arc;

use fedcast::methods::coda_prompt::{CodaPrompt, ComponentSizes};
use fedcast::methods::powder::{ClientTaskDownload, Powder, PowderConfig};
use fedcast::model::ParameterSet;
use fedcast::policy::ModelFacts;

use super::{downs, small, table, task, uploads};
use crate::engine;
use crate::toys::facts;
use crate::toys::watched::Engine;

/// A client task of Fed-CODAP, even a single one, has its own components, in as many blocks and each of as many tokens
/// as the method says.
#[test]
fn client_tasks_of_coda_prompt_have_its_sizes() {
    let numbers = |prompt_len: u32, client_task_components: u32, blocks: (u32, u32)| {
        let (first_block, n_blocks) = blocks;
        let usual = ComponentSizes::default();
        let sizes = ComponentSizes { prompt_len, first_block, n_blocks, ..usual };
        let method = CodaPrompt { sizes, client_task_components, ..CodaPrompt::default() };
        let mut run = engine(Arc::new(method.side_by_side(&facts())), 3);
        task(&mut run, 0, 1, 1);
        uploads(&run)[0].iter().map(|(_, parameter)| parameter.values.len()).sum::<usize>()
    };
    let width = 16;
    let few = numbers(4, 3, (0, 2));
    assert_eq!(numbers(6, 3, (0, 2)) - few, 2 * 3 * 2 * width);
    // A component has a key and an attention besides its tokens.
    assert_eq!(numbers(4, 5, (0, 2)) - few, 2 * 2 * (4 + 2) * width);
    assert_eq!(few - numbers(4, 3, (1, 1)), 3 * (4 + 2) * width);
}

/// Fed-CODAP as in Powder's benchmark: client tasks are concatenated, each with its owner, and nothing is compared.
#[test]
fn client_tasks_side_by_side_are_owned_and_nothing_is_averaged() {
    // Places for six client tasks of two classes.
    let wide = ModelFacts { classes: 12, ..facts() };
    let config = PowderConfig { kd_weight: 0.0, ..small() };
    let mut run = engine(Arc::new(Powder::side_by_side(config, &wide)), 3);
    task(&mut run, 0, 2, 2);
    task(&mut run, 1, 2, 1);
    assert!(run.exchanges.iter().all(|exchange| exchange.phase == "train"));
    let (client_tasks, sent) = (table(&run), uploads(&run));
    let kept: Vec<&ParameterSet> =
        client_tasks.entries().iter().map(|client_task| &client_task.parameters).collect();
    assert_eq!(kept, [&sent[2], &sent[3], &sent[4], &sent[5]]);
    // An even share of everyone who has begun; places of the others are empty.
    let shares = downs(&run, "train")
        .map(|download| ClientTaskDownload::read(&download).unwrap().table.unwrap());
    let shares: Vec<Vec<f64>> = shares.map(|table| table.weights).collect();
    assert_eq!(shares[0], [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(shares[5], [0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
    // It is a prefix, no tokens: what a client task answers depends on the others.
    let scores = |run: &Engine| {
        let loader = run.ctx.statistics_loader(&(0..12).collect());
        let batch = loader.in_order(12).next().unwrap().unwrap();
        let predictor = run.server.predictor(&run.ctx).unwrap();
        let scope = fedcast::policy::Scope::Task(2..4);
        let found = predictor.batch_scores(&batch, &run.ctx.device, &scope).unwrap();
        found.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let before = scores(&run);
    let mut others = client_tasks.clone();
    let first = others.entry_mut(0);
    let key = first.parameters.get("prompt.00.key").unwrap().clone();
    let turned = key.values.iter().map(|value| -value).collect();
    let turned = fedcast::model::Parameter { values: turned, ..key };
    first.parameters.insert("prompt.00.key", turned);
    run.server.load(&others.save()).unwrap();
    assert_ne!(before, scores(&run));
}
