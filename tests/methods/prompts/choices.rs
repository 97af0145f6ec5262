//! Prompts that an image gets, the pull of their keys, and the parameters that train in a task.

use super::*;

/// Rows outside the current slices, of head and prompts, keep their bits while a task is learned.
fn only_own_rows_move(method: Arc<dyn Method>, sliced: &[String], per_task: usize) {
    let mut run = engine(method, 3);
    task(&mut run, 0);
    for t in 1..3 {
        let before = saved(&run);
        let shards = deal(&run.ctx, &run.view(t), 2);
        run.task(t, &shards, 2);
        let after = saved(&run);
        let (own, head) = (t * per_task..(t + 1) * per_task, run.view(t).rows.clone());
        for name in sliced.iter().map(String::as_str).chain(["head.weight", "head.bias"]) {
            let own = if name.starts_with("head") { head.clone() } else { own.clone() };
            let count = before.get(name).unwrap().shape[0];
            for row in 0..count {
                let same = rows(&before, name, row..row + 1) == rows(&after, name, row..row + 1);
                assert_eq!(same, !own.contains(&row), "task {t}: {name}, row {row}");
            }
        }
    }
}

#[test]
fn a_task_moves_its_expert_or_components_and_its_head_rows() {
    let experts = [expert_name(1), EXPERT_KEYS.to_owned()];
    only_own_rows_move(dual_of(|c| c.pull_weight = 1.0), &experts, 1);
    let components: Vec<String> =
        (0..2).flat_map(|block| ComponentPart::ALL.map(|part| part.name(block))).collect();
    only_own_rows_move(coda_of(|_| ()), &components, 2);
    only_own_rows_move(contrast_of(C2lForm::FeatureHinge), &components, 2);
}

#[test]
fn without_a_pull_keys_and_unselected_prompts_stay() {
    let run = engine(l2p_of(|c| c.pool = 8), 3);
    let before = saved(&run);
    let run = run.run(2, 1);
    let after = saved(&run);
    assert_eq!(before.get(KEYS), after.get(KEYS));
    let chosen = |prompt: usize| {
        let name = format!("chosen_{prompt:02}");
        let metrics = run.exchanges.iter().flat_map(|exchange| &exchange.metrics);
        metrics.filter(|(own, _)| *own == name).any(|(_, share)| *share > 0.0)
    };
    assert!((0..8).any(|prompt| !chosen(prompt)), "eight prompts, and few are chosen");
    for prompt in 0..8 {
        let of = |set| rows(set, POOL, prompt..prompt + 1).to_vec();
        assert_eq!(of(&before) != of(&after), chosen(prompt), "prompt {prompt}");
    }
    let shares = run.exchanges[0].metrics.iter().filter(|(name, _)| name.starts_with("chosen"));
    assert!((shares.map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);

    let run = engine(dual_of(|_| ()), 3);
    let before = saved(&run);
    let after = saved(&run.run(2, 1));
    assert_eq!(before.get(EXPERT_KEYS), after.get(EXPERT_KEYS));
    let pulled = saved(&engine(l2p_of(|c| c.pull_weight = 0.1), 3).run(2, 1));
    assert_ne!(pulled.get(KEYS), before.get(KEYS));
}

/// Queries of the first batch of task 0, and the batch.
fn step(ctx: &fedcast::policy::RunContext) -> (PackBatch, Tensor) {
    let shard = deal(ctx, &ctx.task_sequence.tasks[0], 1).remove(0);
    let loader = ctx.with_queries(ctx.train_loader(&shard), QueryView::Clean).unwrap();
    let batch = loader.in_order(16).next().unwrap().unwrap();
    let queries = batch.queries(&ctx.device).unwrap().unwrap();
    let groups = SampleGroups::one(batch.len());
    (PackBatch { batch, groups, steps: vec![0] }, queries)
}

/// Choice of this number of prompts of two tokens, with this pull.
fn pulling(top: usize, pull: f64) -> SelectedPrompts {
    let (position, pooling) = (PromptPosition::ClsCopy, Pooling::ClsAndPrompts);
    SelectedPrompts { top, length: 2, pull, position, pooling }
}

/// The cosine does not see how long a key is, so a pull cannot make it longer.
#[test]
fn a_pull_is_at_right_angles_to_its_key_and_bounded() {
    let ctx = run_context(3, ClassPermutation::Native);
    let (step, queries) = step(&ctx);
    /// Method that pulls, its training, the keys that are pulled, and the largest pull.
    type Pulling = (Arc<dyn Method>, Arc<dyn Prompting>, Range<usize>, f32);
    let kinds: [Pulling; 2] = [
        (l2p_of(|c| c.pull_weight = 1.0), Arc::new(pulling(2, 1.0)), 0..4, 2.0),
        (
            dual_of(|c| c.pull_weight = 1.0),
            Arc::new(Experts {
                general: 0..1,
                experts: 1..2,
                expert: Expert::Given(0),
                pull: 1.0,
                layout: ExpertLayout::Own,
            }),
            0..1,
            1.0,
        ),
    ];
    for (method, prompting, keys, bound) in kinds {
        let received = saved(&engine(method, 3));
        let tensors: PromptTensors = (received.iter())
            .map(|(name, p)| (Arc::clone(name), p.tensor(&ctx.device).unwrap()))
            .collect();
        let pull = prompting.loss(&tensors, &queries).unwrap().unwrap();
        assert!(pull.to_scalar::<f32>().unwrap().abs() <= bound);
        let model =
            Classifier::pack_with(&ctx.backbone, vec![received.clone()], 0..2, Some(prompting));
        let model = model.unwrap();
        let loss = model.pack_losses(&step, &ctx.device, None).unwrap();
        let gradients = loss.sum_all().unwrap().backward().unwrap();
        let (_, variable) =
            model.variables().iter().find(|(name, _)| &**name == "prompt.keys").unwrap();
        assert_eq!(variable.dims()[0], keys.len(), "only keys that are pulled train");
        let pulls = gradients.get(variable).unwrap().to_vec2::<f32>().unwrap();
        let mut moved = 0;
        for (pull, key) in pulls.iter().zip(keys) {
            let key = rows(&received, "prompt.keys", key..key + 1);
            let along: f32 = pull.iter().zip(key).map(|(a, b)| a * b).sum();
            assert!(along.abs() < 1e-5, "{along}");
            moved += usize::from(pull.iter().any(|g| *g != 0.0));
        }
        assert!(moved > 0);
    }
}

#[test]
fn the_length_of_keys_does_not_matter() {
    for method in all() {
        let plain = answers_with(Arc::clone(&method), |_, _| ());
        let longer = answers_with(Arc::clone(&method), |name, values| {
            if name.ends_with("keys") || name.ends_with("key") {
                values.iter_mut().for_each(|v| *v *= 4.0);
            }
        });
        assert!(near(&plain, &longer));
        let other = answers_with(method, |name, values| {
            if name.ends_with("pool") || name.ends_with("general") || name.ends_with("component") {
                values.iter_mut().zip(0..).for_each(|(v, i)| *v = (i as f32).sin());
            }
        });
        assert!(!near(&plain, &other), "prompts matter");
    }
}

/// A pool of as many prompts as are chosen is one shared prompt, whose tokens are those of the pool: which key belongs
/// to which does not matter.
#[test]
fn choosing_all_prompts_is_plain_shallow_prompting() {
    let whole = || l2p_of(|c| (c.pool, c.top) = (3, 3));
    let plain = answers_with(whole(), |_, _| ());
    let run = engine(whole(), 3).run(1, 1);
    let pool = saved(&run).get(POOL).unwrap().tensor(&run.ctx.device).unwrap();
    let tokens = pool.reshape((1, 6, 16)).unwrap().broadcast_as((20, 6, 16)).unwrap();
    let tokens = PromptTokens {
        tokens: tokens.contiguous().unwrap(),
        position: PromptPosition::ClsCopy,
        pooling: Pooling::ClsAndPrompts,
    };
    let adaptation = Adaptation { tokens: Some(tokens), ..Adaptation::none() };
    assert!(near(&plain, &adapted(&run.ctx, &adaptation)));
    let turned = answers_with(whole(), |name, values| {
        if name == KEYS {
            values.reverse();
        }
    });
    assert!(near(&plain, &turned));
    let part = || l2p_of(|c| (c.pool, c.top) = (3, 1));
    let turned = answers_with(part(), |name, values| {
        if name == KEYS {
            values.reverse();
        }
    });
    assert!(!near(&answers_with(part(), |_, _| ()), &turned));
}

#[test]
fn prompts_of_no_length_are_a_linear_probe() {
    let probe = saved(&engine(fedavg_of(Train::Head), 3).run(2, 2));
    let bare = [
        l2p_of(|c| (c.prompt_len, c.pooling) = (0, Pooling::Cls)),
        dual_of(|c| (c.g_len, c.e_len) = (0, 0)),
    ];
    for method in bare {
        let found = saved(&engine(method, 3).run(2, 2));
        for name in ["head.weight", "head.bias"] {
            let (a, b) = (probe.get(name).unwrap(), found.get(name).unwrap());
            assert!(near(&a.values, &b.values), "{name}");
        }
    }
}

/// Keys that separate tasks make inference equal to that with the task given.
#[test]
fn an_expert_found_by_its_key_answers_as_one_that_is_given() {
    let ctx = run_context(3, ClassPermutation::Native);
    let (step, queries) = step(&ctx);
    let mut received = saved(&engine(dual_of(|_| ()), 3));
    let mean = queries.mean(0).unwrap();
    let keys = Tensor::stack(&[mean.neg().unwrap(), mean.clone(), mean.neg().unwrap()], 0).unwrap();
    received.insert(EXPERT_KEYS, Parameter::of(&keys).unwrap());
    let features = |expert: Expert| {
        let prompting =
            Experts { general: 0..1, experts: 1..2, expert, pull: 0.0, layout: ExpertLayout::Own };
        let model = Classifier::frozen_with(&ctx.backbone, &received, Some(Arc::new(prompting)));
        let found = model.unwrap().batch_features(&step.batch, &ctx.device).unwrap();
        found.to_vec2::<f32>().unwrap()
    };
    assert_eq!(features(Expert::Nearest(0..3)), features(Expert::Given(1)));
    assert_ne!(features(Expert::Nearest(0..1)), features(Expert::Given(1)));
}

#[test]
fn an_expert_may_start_as_a_copy_and_be_kept_from_tasks_to_come() {
    let mut run = engine(dual_of(|c| c.copy_previous = true), 3);
    task(&mut run, 0);
    let shards = deal(&run.ctx, &run.view(1), 2);
    run.task(1, &shards, 0);
    let set = saved(&run);
    assert_eq!(rows(&set, &expert_name(1), 0..1), rows(&set, &expert_name(1), 1..2));
    assert_eq!(set.get(&general_name(0)).unwrap().shape, [4, 16]);
    let rows = |seen: bool, form: WireForm, task: usize, direction: RowPurpose| {
        let method = DualPrompt { match_seen_only: seen, ..small_dual() };
        let (parts, model) = (method.parts(), &ModelFacts { form, ..facts() });
        let view = &TaskView { task: TaskId(task as u16), rows: 0..2, classes: vec![0, 1] };
        let head = parts.averaging.head;
        parts.adaptation.rows(&RowQuery { model, view, direction, round: 0, head }).pool
    };
    let answers = |seen| rows(seen, WireForm::Full, 0, RowPurpose::Inference);
    assert_eq!((answers(false), answers(true)), (0..3, 0..1));
    // Tasks beyond the pool share its last expert.
    let own = |task| rows(true, WireForm::Lean, task, RowPurpose::Up);
    assert_eq!((own(2), own(7)), (2..3, 2..3));
}

#[test]
fn components_of_a_task_start_orthonormal() {
    let mut run = engine(coda_of(|_| ()), 3);
    let none = deal(&run.ctx, &run.view(0), 1);
    run.task(0, &none, 0);
    let set = saved(&run);
    for name in (0..2).flat_map(|block| ComponentPart::ALL.map(|part| part.name(block))) {
        let row = |k: usize| rows(&set, &name, k..k + 1);
        for (a, b) in [(0, 0), (0, 1), (1, 1)] {
            let product: f32 = row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum();
            assert!((product - if a == b { 1.0 } else { 0.0 }).abs() < 1e-5, "{name}: {a}, {b}");
        }
        assert!(rows(&set, &name, 2..6).iter().all(|v| *v == 0.0), "{name}");
    }
    // Nothing trained in between: the next ones are orthogonal to them, too.
    run.task(1, &none, 0);
    let set = saved(&run);
    for name in (0..2).flat_map(|block| ComponentPart::ALL.map(|part| part.name(block))) {
        for (a, b) in [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (2, 2), (3, 3)] {
            let (one, other) = (rows(&set, &name, a..a + 1), rows(&set, &name, b..b + 1));
            let product: f32 = one.iter().zip(other).map(|(a, b)| a * b).sum();
            assert!((product - if a == b { 1.0 } else { 0.0 }).abs() < 1e-5, "{name}: {a}, {b}");
        }
    }
    let once = saved(&engine(coda_of(|c| c.orthogonal = Orthogonal::Once), 3));
    let name = ComponentPart::Key.name(1);
    assert!((0..6).all(|row| rows(&once, &name, row..row + 1).iter().any(|v| *v != 0.0)));
}

/// Prompts that do not divide by the number of tasks are left over; a single task has all.
#[test]
fn tasks_share_the_pool_in_whole_components() {
    let run = engine(coda_of(|c| c.sizes.pool = 7), 3).run(1, 1);
    let set = saved(&run);
    let one = ModelFacts { tasks: 1, ..facts() };
    let method = built(small_coda(), &one);
    let whole = Engine::new(method, one, run_context(1, ClassPermutation::Native)).run(1, 1);
    let exchange = whole.last();
    let (down, up) = (parameters_of(&exchange.down), parameters_of(exchange.up.as_ref().unwrap()));
    let (down, up) = (down.unwrap(), up.unwrap());
    for name in (0..2).flat_map(|block| ComponentPart::ALL.map(|part| part.name(block))) {
        let zero = |row: usize| rows(&set, &name, row..row + 1).iter().all(|v| *v == 0.0);
        assert!((0..6).all(|row| !zero(row)) && zero(6), "{name}");
        let row = |set, row| rows(set, &name, row..row + 1).to_vec();
        assert!((0..6).all(|k| row(&down, k) != row(&up, k)), "{name} trains");
    }
}

/// All clients draw the offsets of misordered positions from one seed: they are neither sent nor trained.
#[test]
fn offsets_are_the_same_for_all_clients() {
    let of = |seed| {
        let place = move |c: &mut L2p| {
            (c.prompt_pos, c.offset_seed) = (PromptPlace::Misordered, seed);
        };
        let run = engine(l2p_of(place), 3).run(1, 1);
        let sent = parameters_of(&run.last().down).unwrap();
        let names: Vec<String> = sent.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["head.bias", "head.weight", KEYS, POOL]);
        answers(&*run.server.predictor(&run.ctx).unwrap(), &run.ctx)
    };
    assert_eq!(of(1), of(1));
    assert!(!near(&of(1), &of(2)));
}

/// Prompts are chosen image by image: no vote of a batch.
#[test]
fn answers_do_not_depend_on_other_images_of_the_batch() {
    let ctx = run_context(3, ClassPermutation::Native);
    let loader =
        ctx.with_queries(ctx.statistics_loader(&(0..16).collect()), QueryView::Clean).unwrap();
    let batches = |size| loader.in_order(size).map(Result::unwrap).collect::<Vec<_>>();
    let queries = batches(16)[0].queries(&ctx.device).unwrap().unwrap();
    // Keys between which images are torn: what is particular to three of them.
    let apart = queries.broadcast_sub(&queries.mean_keepdim(0).unwrap()).unwrap();
    let keys = Parameter::of(&apart.narrow(0, 0, 3).unwrap()).unwrap();
    let similar = prompts::cosines(&queries, &apart.narrow(0, 0, 3).unwrap()).unwrap();
    let chosen = prompts::selection(&similar, 1).unwrap().concat();
    assert!((0..3).all(|key| chosen.contains(&key)), "{chosen:?}");
    let nearest = Expert::Nearest(0..3);
    let kinds: [(Arc<dyn Method>, Arc<dyn Prompting>); 2] = [
        (l2p_of(|c| c.pool = 3), Arc::new(pulling(1, 0.0))),
        (
            dual_of(|_| ()),
            Arc::new(Experts {
                general: 0..1,
                experts: 1..2,
                expert: nearest,
                pull: 0.0,
                layout: ExpertLayout::Own,
            }),
        ),
    ];
    for (method, prompting) in kinds {
        let mut received = saved(&engine(method, 3));
        received.insert("prompt.keys", keys.clone());
        let model = Classifier::frozen_with(&ctx.backbone, &received, Some(prompting)).unwrap();
        let features = |size| -> Vec<f32> {
            let of = |batch| model.batch_features(&batch, &ctx.device).unwrap();
            let all = batches(size).into_iter().map(of);
            all.flat_map(|f| f.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
        };
        assert!(far(&features(16), &features(1)) < 1e-4);
    }
}

/// The public code's error, through the method: a neighbor's expert decides on an image's answer, which is its own
/// expert's where it stands alone.
#[test]
fn dealt_as_the_public_code_deals_them_experts_are_those_of_neighbours() {
    let run = |layout| engine(dual_of(|c| c.layout = layout), 3).run(1, 1);
    let (mut own, mut dealt) = (run(ExpertLayout::Own), run(ExpertLayout::Reference));
    let loader = own
        .ctx
        .with_queries(own.ctx.statistics_loader(&(0..16).collect()), QueryView::Clean)
        .unwrap();
    let batch = loader.in_order(16).next().unwrap().unwrap();
    let queries = batch.queries(&own.ctx.device).unwrap().unwrap();
    // Keys between which images are torn, and experts that are unlike each other.
    let apart = queries.broadcast_sub(&queries.mean_keepdim(0).unwrap()).unwrap();
    let keys = apart.narrow(0, 0, 3).unwrap();
    let similar = prompts::cosines(&queries, &keys).unwrap();
    let chosen = prompts::selection(&similar, 1).unwrap().concat();
    let other = |than: &[u32]| chosen.iter().position(|expert| !than.contains(expert)).unwrap();
    let image = 0;
    let (alike, unlike) =
        ((1..16).find(|at| chosen[*at] == chosen[image]).unwrap(), other(&[chosen[image]]));
    let mut body = own.server.save();
    let mut set = parameters_of(&body).unwrap();
    set.insert(EXPERT_KEYS, Parameter::of(&keys).unwrap());
    let Parameter { shape, values } = set.get(&expert_name(1)).unwrap();
    let values: Vec<f32> = (0..values.len()).map(|i| (i as f32).sin()).collect();
    let shape = shape.clone();
    set.insert(expert_name(1), Parameter { shape, values: values.into() });
    body.sections = fedcast::policy::parameter_sections(&set);
    own.server.load(&body).unwrap();
    dealt.server.load(&body).unwrap();
    // The first image's features among these.
    let features = |run: &Engine, images: &[usize]| -> Vec<f32> {
        let shard = images.iter().map(|image| *image as u32).collect();
        let batch = run.ctx.statistics_loader(&shard).in_order(16).next().unwrap().unwrap();
        let predictor = run.server.predictor(&run.ctx).unwrap();
        let all = predictor.features(&run.ctx.pixels(&batch).unwrap()).unwrap();
        all.to_vec2::<f32>().unwrap().remove(0)
    };
    let alone = features(&own, &[image]);
    for neighbor in [alike, unlike] {
        assert!(near(&alone, &features(&own, &[image, neighbor])), "{chosen:?}");
    }
    assert!(near(&alone, &features(&dealt, &[image])), "one image has its own key and value");
    let [by_like, by_unlike] = [alike, unlike].map(|neighbor| features(&dealt, &[image, neighbor]));
    assert!(!near(&alone, &by_like) && !near(&by_like, &by_unlike));
    // Of more images the first has what is of the first two, whichever follow.
    assert!(near(&by_unlike, &features(&dealt, &[image, unlike, 2, 3])));
}

/// Checks training: one image is trained as meant, a batch of several is not.
#[test]
fn the_public_codes_deal_changes_what_a_batch_teaches() {
    let taught = |layout, batch| {
        let mut run = engine(dual_of(|c| c.layout = layout), 3);
        run.ctx.training.batch = batch;
        let shard = deal(&run.ctx, &run.view(0), 1)[0].iter().copied().take(8).collect();
        run.task(0, &[shard], 1);
        let exchange = run.last();
        [&exchange.down, exchange.up.as_ref().unwrap()].map(|body| parameters_of(body).unwrap())
    };
    let names = [expert_name(1), "head.weight".to_owned()];
    for (batch, same) in [(1, true), (8, false)] {
        let [own, dealt] =
            [ExpertLayout::Own, ExpertLayout::Reference].map(|layout| taught(layout, batch));
        assert_eq!(own[0], dealt[0], "they begin alike");
        for name in &names {
            let of = |set: &ParameterSet| set.get(name).unwrap().values.to_vec();
            assert_ne!(of(&own[0]), of(&own[1]), "{name}");
            let gap = far(&of(&own[1]), &of(&dealt[1]));
            assert_eq!(gap < 1e-4, same, "{name}, batches of {batch}: {gap}");
        }
    }
}

/// Not neutral: a zero key takes attention, too.
#[test]
fn components_of_zeros_are_a_prefix_of_zeros() {
    let features = answers_with(coda_of(|_| ()), |name, values| {
        if name.starts_with("prompt") {
            values.iter_mut().for_each(|v| *v = 0.0);
        }
    });
    let ctx = run_context(3, ClassPermutation::Native);
    let zeros = Tensor::zeros((4, 16), candle_core::DType::F32, &ctx.device).unwrap();
    let prefix = || Prefix::halves(&zeros).unwrap();
    assert!(near(&features, &adapted(&ctx, &Adaptation::prefixes([prefix(), prefix()]))));
}

#[test]
fn without_the_contrast_fed_cprompt_is_coda_prompt_with_a_softmax() {
    let coda = coda_of(|c| (c.orthogonal, c.attention_softmax) = (Orthogonal::Once, true));
    let coda = saved(&engine(coda, 3).run(2, 2)).digest();
    let of = |form| saved(&engine(contrast_of(form), 3).run(2, 2)).digest();
    assert_eq!(of(C2lForm::Off), coda);
    let others = [C2lForm::FeatureHinge, C2lForm::FeatureSoftmax, C2lForm::Prompt].map(of);
    for (place, other) in others.iter().enumerate() {
        assert!(*other != coda && !others[..place].contains(other));
    }
}

/// There is no earlier task to be away from: the softmax has one term, and its loss is 0.
#[test]
fn in_the_first_task_a_softmax_contrasts_nothing() {
    let of = |form| saved(&engine(contrast_of(form), 3).tasks(1, 2, 2)).digest();
    assert_eq!(of(C2lForm::FeatureSoftmax), of(C2lForm::Off));
    assert_ne!(of(C2lForm::FeatureHinge), of(C2lForm::Off));
}

/// Returns the loss of the first batch of the second task, before any step. In the first task all of these move
/// alike.
fn first_loss(change: impl Fn(&mut FedCPrompt)) -> f64 {
    let mut method = small_contrast(C2lForm::Off);
    change(&mut method);
    let mut run = engine(built(method, &facts()), 3);
    (0..2).for_each(|at| task(&mut run, at));
    let first = run.exchanges.iter().find(|exchange| exchange.task == 1).unwrap();
    first.metrics.iter().find(|(name, _)| *name == "loss_first").unwrap().1
}

/// A wider margin adds itself where the hinge is active; a flat softmax adds `ln 2` and pulls nowhere.
#[test]
fn the_contrast_is_added_to_the_cross_entropy() {
    let prompts =
        |alpha| first_loss(|method| (method.c2l.form, method.c2l.alpha) = (C2lForm::Prompt, alpha));
    assert!((prompts(60.0) - prompts(50.0) - 10.0).abs() < 1e-4);
    let flat = |method: &mut FedCPrompt| {
        (method.c2l.form, method.c2l.temperature) = (C2lForm::FeatureSoftmax, 1e12);
    };
    let contrast = first_loss(flat) - first_loss(|_| ());
    assert!((contrast - std::f64::consts::LN_2).abs() < 1e-4, "{contrast}");
}

/// Tasks beyond the pool share the last expert: where a new one begins it starts as a copy, where the last goes on it
/// stays.
#[test]
fn an_expert_that_is_shared_is_not_copied_again() {
    let starts_of = |pool: u32| -> Vec<ParameterSet> {
        let mut run =
            engine(dual_of(|method| (method.pool, method.copy_previous) = (pool, true)), 3);
        let mut starts = Vec::new();
        for at in 0..3 {
            task(&mut run, at);
            let own = run.exchanges.iter().find(|exchange| exchange.task == at).unwrap();
            starts.push(parameters_of(&own.down).unwrap());
        }
        starts
    };
    for pool in [2, 3] {
        let starts = starts_of(pool);
        let name = starts[0].iter().find(|(name, _)| name.ends_with(".expert")).unwrap().0.clone();
        let expert = |task: usize, row: usize| rows(&starts[task], &name, row..row + 1).to_vec();
        assert_eq!(expert(1, 1), expert(1, 0), "the second begins as the first ended");
        assert_ne!(expert(1, 0), expert(0, 0), "which had learnt");
        match pool {
            2 => assert_ne!(expert(2, 1), expert(2, 0), "the last goes on"),
            _ => assert_eq!(expert(2, 2), expert(2, 1), "the third begins as the second ended"),
        }
    }
}
