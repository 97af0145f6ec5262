//! What travels, is kept and is added up: forms of messages, caches, saved servers, sums.

use super::*;

/// Each kind in one form of messages and head.
fn in_form(form: WireForm, head: HeadForm, components: PoolForm) -> [Arc<dyn AnyMethod>; 4] {
    let (facts, shared) = (ModelFacts { form, ..facts() }, PromptedConfig { head, ..shared() });
    let small = L2pConfig { pool: 4, prompt_len: 2, top: 2, ..L2pConfig::default() };
    let coda = CodaConfig { components, ..coda_config() };
    let contrast = FedCPromptConfig { components: coda.clone(), ..FedCPromptConfig::default() };
    let pulled = DualPromptConfig { pull_weight: 1.0, ..dual_config() };
    [
        erase(l2p::method(small, shared.clone(), &facts)),
        erase(dualprompt::method(pulled, shared.clone(), &facts)),
        erase(coda_prompt::method(coda, shared.clone(), &facts)),
        erase(fed_cprompt::method(contrast, shared, &facts)),
    ]
}

/// The engine of these tests compares every message with its sketch.
#[test]
fn lean_and_growing_messages_change_no_result() {
    let digests = |form, head, components| {
        in_form(form, head, components).map(|method| {
            let facts = ModelFacts { form, ..facts() };
            let run = Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 1);
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
            let mut lab = lab(3, ClassOrder::Native);
            if off {
                lab.cache = Arc::new(FeatureCache::new(Shelf::Off, 0, false));
            }
            if augment {
                let steps = vec![Step::Flip { probability: 0.5 }];
                lab.train_transform = Arc::new(Transform { steps, ..Transform::default() });
            }
            saved(&Engine::new(Arc::clone(&method), facts(), lab).run(2, 1)).digest()
        };
        assert_eq!(run(false, false), run(true, false));
        assert_eq!(run(false, true), run(true, true));
        assert_ne!(run(false, true), run(false, false));
    }
    let with = |query| {
        let shared = PromptedConfig { query, ..shared() };
        let mut lab = lab(3, ClassOrder::Native);
        let steps = vec![Step::Flip { probability: 0.5 }];
        lab.train_transform = Arc::new(Transform { steps, ..Transform::default() });
        let method = erase(coda_prompt::method(coda_config(), shared, &facts()));
        saved(&Engine::new(method, facts(), lab).run(2, 1)).digest()
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
        let period = Period::of(view, 3);
        run.server.begin_period(&period, &run.lab).unwrap();
        assert_eq!(run.server.save().digest(), body.digest(), "the task has begun before");
    }
}

/// The sum of what clients add is the fold of what they send.
fn sums_are_folds<K: PromptKind>(method: &Prompted<K>) {
    let lab = lab(3, ClassOrder::Native);
    let init =
        fedcast::numerics::streams::StreamKey::new(5, fedcast::numerics::streams::Domain::Init);
    let mut server = method.server(&lab, init).unwrap();
    let view = Arc::clone(&lab.curriculum.tasks[1]);
    let period = Period::of(Arc::clone(&view), 3);
    server.begin_period(&period, &lab).unwrap();
    let round = first_round(&period);
    let seats = one_seat_each(&period, &[ClientId(0), ClientId(1)]);
    let downs = server.broadcast(&round, &seats, &lab).unwrap();
    let shards = deal(&lab, &view, 2);
    let mut states = [(), ()];
    let mut members: Vec<Member<'_, Prompted<K>>> = seats
        .iter()
        .zip(&mut states)
        .zip(shards)
        .map(|((seat, state), shard)| Member {
            seat: seat.clone(),
            phase: 0,
            down: Arc::clone(&downs[0]),
            state,
            shard,
            key: seat.key(5, Round(0)),
            missed: Vec::new(),
        })
        .collect();
    let outcomes = method.client().train(&mut members, &lab);
    let ups: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap().up).collect();
    let meta = |place: usize| UpMeta::timely(seats[place].clone(), Round(0));
    let additive = method.additive().unwrap();
    let summands: Vec<_> = ups
        .iter()
        .enumerate()
        .map(|(place, up)| additive.summand(&downs[0], up, &meta(place)).unwrap())
        .collect();
    let mut sum = summands[0].clone();
    for (section, other) in sum.sections.iter_mut().zip(&summands[1].sections) {
        for (tensor, other) in section.tensors.iter_mut().zip(&other.tensors) {
            let (a, b) = (tensor.as_f64().unwrap(), other.as_f64().unwrap());
            let added: Vec<f64> = a.iter().zip(b.iter()).map(|(a, b)| a + b).collect();
            let shape = tensor.shape().to_vec();
            *tensor =
                fedcast::wire::NamedTensor::f64(Arc::clone(tensor.name()), &shape[..], &added[..])
                    .unwrap();
        }
    }
    let base = parameters_of(&server.save()).unwrap();
    let summed = additive.part(&sum).unwrap().apply(&base);
    let lifted = ups.into_iter().enumerate();
    let lifted = lifted.map(|(place, up)| method.lift(&downs[0], up, &meta(place)).unwrap());
    let folded = lifted.reduce(Part::merge).unwrap().apply(&base);
    assert_ne!(folded.digest(), base.digest());
    for ((name, a), (_, b)) in summed.iter().zip(folded.iter()) {
        assert!(far(&a.values, &b.values) < 1e-6, "{name}");
    }
}

#[test]
fn uploads_are_sums() {
    for form in [WireForm::Full, WireForm::Lean] {
        let facts = ModelFacts { form, ..facts() };
        let small = L2pConfig { pool: 4, prompt_len: 2, top: 2, ..L2pConfig::default() };
        sums_are_folds(&l2p::method(small, shared(), &facts));
        sums_are_folds(&dualprompt::method(dual_config(), shared(), &facts));
        sums_are_folds(&coda_prompt::method(coda_config(), shared(), &facts));
    }
}

/// STSA upon prompts of the first task: what travels once are those prompts.
#[test]
fn prompts_can_be_the_first_of_two_methods() {
    for first in all() {
        let sketch = first.feature_sketch();
        let then = erase(fedcast::methods::stsa::Stsa::new(crate::stsa::exact(), &facts()));
        let staged: Arc<dyn AnyMethod> = Arc::new(Staged::new(first, then));
        let run = Engine::new(staged, facts(), lab(3, ClassOrder::Native)).run(2, 1);
        assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
        assert!(!sketch.sections.is_empty());
        assert!(run.tally(6).accuracy(0..6) > 0.5);
    }
}

#[test]
fn tasks_weigh_clients_by_samples_or_alike() {
    let of = |weights| {
        let shared = PromptedConfig { weights, ..shared() };
        let method = erase(coda_prompt::method(coda_config(), shared, &facts()));
        let mut run = engine(method, 3);
        let whole = deal(&run.lab, &run.view(0), 1).remove(0);
        let shards = [whole[..4].into(), whole[4..].into()];
        run.task(0, &shards, 1);
        saved(&run).digest()
    };
    assert_ne!(of(fedavg::Weights::Uniform), of(fedavg::Weights::BySamples));
}
