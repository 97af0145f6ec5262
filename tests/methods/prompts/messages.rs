//! Messages, memory and sums: forms of messages, caches, saved servers.

use std::collections::BTreeMap;

use fedcast::policy::{AveragingGroup, TensorSpec};
use fedcast::wire::NamedTensor;

use super::*;

/// Each method in one form of messages and head.
fn in_form(form: WireForm, head: HeadForm, components: PoolForm) -> [Arc<dyn Method>; 4] {
    let (facts, prompted) =
        (ModelFacts { form, ..facts() }, Prompted { head_form: head, ..Prompted::default() });
    let coda =
        CodaPrompt { component_form: components, prompted: prompted.clone(), ..small_coda() };
    let contrast = FedCPrompt { coda: coda.clone(), ..FedCPrompt::default() };
    let pulled = DualPrompt { pull_weight: 1.0, prompted: prompted.clone(), ..small_dual() };
    [
        built(L2p { prompted, ..small_l2p() }, &facts),
        built(pulled, &facts),
        built(coda, &facts),
        built(contrast, &facts),
    ]
}

/// The engine of these tests compares every message with its sketch.
#[test]
fn lean_and_growing_messages_change_no_result() {
    let digests = |form, head, components| {
        in_form(form, head, components).map(|method| {
            let facts = ModelFacts { form, ..facts() };
            let run =
                Engine::new(method, facts, run_context(3, ClassPermutation::Native)).run(2, 1);
            assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
            saved(&run).digest()
        })
    };
    let full = digests(WireForm::Full, HeadForm::Fixed, PoolForm::Fixed);
    for form in [WireForm::Full, WireForm::Lean] {
        assert_eq!(digests(form, HeadForm::Growing, PoolForm::Growing), full);
    }
    assert_eq!(digests(WireForm::Lean, HeadForm::Fixed, PoolForm::Fixed), full);
}

#[test]
fn no_cache_changes_a_bit_and_augmented_queries_do() {
    for method in all() {
        let run = |off: bool, augment: bool| {
            let mut ctx = run_context(3, ClassPermutation::Native);
            if off {
                ctx.cache = Arc::new(FeatureCache::new(Storage::Off, 0, false));
            }
            if augment {
                let steps = vec![Step::Flip { probability: 0.5 }];
                ctx.train_transform = Arc::new(Transform { steps, ..Transform::default() });
            }
            saved(&Engine::new(Arc::clone(&method), facts(), ctx).run(2, 1)).digest()
        };
        assert_eq!(run(false, false), run(true, false));
        assert_eq!(run(false, true), run(true, true));
        assert_ne!(run(false, true), run(false, false));
    }
    let with = |query| {
        let prompted = Prompted { query, ..Prompted::default() };
        let mut ctx = run_context(3, ClassPermutation::Native);
        let steps = vec![Step::Flip { probability: 0.5 }];
        ctx.train_transform = Arc::new(Transform { steps, ..Transform::default() });
        let method = coda_of(|coda| coda.prompted = prompted.clone());
        saved(&Engine::new(method, facts(), ctx).run(2, 1)).digest()
    };
    assert_ne!(with(QueryView::Clean), with(QueryView::Augmented));
}

/// A server that is saved and loaded within a task goes on as if nothing had been.
#[test]
fn a_server_goes_on_where_it_was_saved() {
    for method in all() {
        let mut run = engine(method, 3);
        task(&mut run, 0);
        task(&mut run, 1);
        let body = run.server.save();
        run.server.load(&body).unwrap();
        assert_eq!(run.server.save().digest(), body.digest());
        let view = run.view(1);
        let stage = Stage::of(view, 3);
        run.server.begin_stage(&stage, &run.ctx).unwrap();
        assert_eq!(run.server.save().digest(), body.digest(), "the task has begun before");
    }
}

/// The sum of what clients add is the aggregation of what they send.
fn sums_are_aggregates(method: Arc<dyn Method>, model: &ModelFacts) {
    let mut run =
        Engine::new(Arc::clone(&method), model.clone(), run_context(3, ClassPermutation::Native));
    let shards = deal(&run.ctx, &run.view(1), 2);
    run.task(1, &shards, 1);
    let [download, upload] = layouts(&*method, model, &run, 1);
    let body = |body| Message::from_body(body, &[]).unwrap();
    let sent = Arc::new(body(&run.exchanges[0].down));
    let uploads = run.exchanges.iter().map(|exchange| body(exchange.up.as_ref().unwrap()));
    let uploads: Vec<Message> = uploads.collect();
    let mut sum = masked_contribution((&sent, &download), (&uploads[0], &upload)).unwrap();
    let other = masked_contribution((&sent, &download), (&uploads[1], &upload)).unwrap();
    for (section, other) in sum.sections.iter_mut().zip(&other.sections) {
        for (tensor, other) in section.tensors.iter_mut().zip(&other.tensors) {
            let added: Vec<f64> =
                tensor.numbers().iter().zip(other.numbers()).map(|(a, b)| a + b).collect();
            *tensor = NamedTensor::f64(Arc::clone(tensor.name()), tensor.shape(), added).unwrap();
        }
    }
    let base = saved(&Engine::new(method, model.clone(), run_context(3, ClassPermutation::Native)));
    let summed = Aggregate::of_sum(&sum, &download, &upload).unwrap().apply(&base);
    let aggregate = run.exchanges.iter().zip(uploads).map(|(exchange, update)| {
        let meta = UploadMeta::timely(exchange.participant.clone(), Round(0));
        Aggregate::of(&meta, (&sent, &download), (update, &upload)).unwrap()
    });
    let folded = aggregate.reduce(Aggregate::merge).unwrap().apply(&base);
    assert_ne!(folded.digest(), base.digest());
    for ((name, a), (_, b)) in summed.iter().zip(folded.iter()) {
        assert!(far(&a.values, &b.values) < 1e-6, "{name}");
    }
}

#[test]
fn uploads_are_sums() {
    for form in [WireForm::Full, WireForm::Lean] {
        let facts = ModelFacts { form, ..facts() };
        sums_are_aggregates(built(small_l2p(), &facts), &facts);
        sums_are_aggregates(built(small_dual(), &facts), &facts);
        sums_are_aggregates(built(small_coda(), &facts), &facts);
    }
}

/// With clients at different tasks, shared parameters are means over all of them.
///
/// Rows of a task, of prompts and head alike, are means over those who learned it.
#[test]
fn rows_are_averaged_over_the_clients_that_trained_them() {
    let groups = |method: Arc<dyn Method>, task: usize| {
        let run = engine(Arc::clone(&method), 3);
        let [_, upload] = layouts(&*method, &facts(), &run, task);
        let mean =
            |place: TensorSpec| (place.name.to_string(), place.aggregation.mean.unwrap().group);
        upload.parameters.into_iter().map(mean).collect::<BTreeMap<String, AveragingGroup>>()
    };
    for (task, row) in [(0, 0), (2, 4)] {
        let (own, head) = (AveragingGroup::Task(task as u16), AveragingGroup::Head(row));
        let l2p = groups(l2p_of(|_| ()), task);
        assert_eq!(
            (l2p[POOL], l2p[KEYS], l2p["head.bias"]),
            (AveragingGroup::All, AveragingGroup::All, head)
        );
        let dual = groups(dual_of(|_| ()), task);
        assert_eq!((dual[&general_name(0)], dual[&expert_name(1)]), (AveragingGroup::All, own));
        assert_eq!((dual[EXPERT_KEYS], dual["head.weight"]), (own, head));
        let coda = groups(coda_of(|_| ()), task);
        assert_eq!((coda[&ComponentPart::Key.name(1)], coda["head.weight"]), (own, head));
    }
}

/// STSA on prompts of the first task: what travels once are those prompts.
#[test]
fn prompts_can_be_the_first_of_two_methods() {
    for first in all() {
        let shape = first.profile().features;
        let then = Arc::new(fedcast::methods::stsa::Stsa::new(crate::stsa::exact(), &facts()));
        let staged: Arc<dyn Method> = Arc::new(Composed::new(first, then));
        let run = Engine::new(staged, facts(), run_context(3, ClassPermutation::Native)).run(2, 1);
        assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
        assert!(!shape.sections.is_empty());
        assert!(run.accuracy(6) > 0.5);
    }
}

#[test]
fn tasks_weigh_clients_by_samples_or_alike() {
    let of = |weights| {
        let prompted = Prompted { client_weighting: weights, ..Prompted::default() };
        let method = coda_of(|coda| coda.prompted = prompted.clone());
        let mut run = engine(method, 3);
        let whole = deal(&run.ctx, &run.view(0), 1).remove(0);
        let shards = [whole[..4].into(), whole[4..].into()];
        run.task(0, &shards, 1);
        saved(&run).digest()
    };
    assert_ne!(of(ClientWeighting::Uniform), of(ClientWeighting::BySamples));
}

/// A client that received only the expert that it trains cannot answer for all classes.
#[test]
fn a_client_has_a_model_of_its_own_where_it_was_sent_all_of_it() {
    let has_one = |form| {
        let [_, dual, ..] = in_form(form, HeadForm::Fixed, PoolForm::Fixed);
        let facts = ModelFacts { form, ..facts() };
        let mut run = Engine::new(dual, facts.clone(), run_context(3, ClassPermutation::Native));
        (0..2).for_each(|at| task(&mut run, at));
        let (view, counts) = (run.view(1), ClassCounts::new());
        let shape = first_exchange(&facts, &view, &counts);
        let exchange = run.last();
        let sent = Message::from_body(&exchange.down, &exchange.assets).unwrap();
        let own = Message::from_body(exchange.up.as_ref().unwrap(), &[]).unwrap();
        let inspection = run.method.inspection().unwrap();
        inspection.local_model(&shape, &sent, &own, &run.ctx).unwrap().is_some()
    };
    assert_eq!([WireForm::Full, WireForm::Lean].map(has_one), [true, false]);
}
