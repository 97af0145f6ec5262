//! Means over clients: one client gives central training, equal clients the model of each.

use fedcast::learning::{MemberData, train_pack};
use fedcast::methods::fedavg_prompt::WeightedPool;
use fedcast::numerics::streams::{Domain, StreamKey};

use super::*;

/// Trains in one place what a run of one client trained: the same batches, an optimizer made again in every round, and
/// no message, no rows that are cut and no mean.
fn central(
    run: &Engine,
    start: ParameterSet,
    begin: impl Fn(usize, ParameterSet) -> ParameterSet,
    prompting: impl Fn(usize) -> Arc<dyn Prompting>,
) -> ParameterSet {
    let (ctx, mut parameters, mut started) = (&run.ctx, start, None);
    for (round, exchange) in run.exchanges.iter().enumerate() {
        let (task, view) = (exchange.task, run.view(exchange.task));
        if started.replace(task) != Some(task) {
            parameters = begin(task, parameters);
        }
        let (rows, prompting) = (view.rows.clone(), Some(prompting(task)));
        let model = Classifier::pack_with(&ctx.backbone, vec![parameters], rows, prompting);
        let model = model.unwrap();
        let loader = ctx.train_loader(&deal(ctx, &view, 1).remove(0));
        let key = exchange.participant.key(SEED, Round(round as u32));
        let (course, rule) =
            ([MemberData { loader: &loader, key }], ctx.training.optimizer.clone());
        let mut optimizer = rule.over_pack(model.vars(), 1);
        let plan = &ctx.training;
        train_pack(plan, &mut optimizer, model.variables(), &course, |step| {
            model.pack_losses(step, &ctx.device, None)
        })
        .unwrap();
        parameters = model.parameters().unwrap();
    }
    parameters
}

fn same(run: &Engine, central: &ParameterSet) {
    for ((name, federated), (_, central)) in saved(run).iter().zip(central.iter()) {
        let off = far(&federated.values, &central.values);
        assert!(off < 1e-4, "{name}: {off}");
    }
}

fn of_one_is_central<C: AveragingMethod>(method: C) {
    let fresh = engine(built(method.clone(), &facts()), 3);
    let (start, init) = (saved(&fresh), StreamKey::new(SEED, Domain::Init));
    let run = fresh.run(1, 2);
    assert_ne!(saved(&run), start);
    let parts = method.parts();
    let begin = |task, parameters| {
        let model = &facts();
        let mut theta = parts.adaptation.begin_task(model, task, parameters, init);
        let start = TaskStart { model, task, init };
        parts.server.begin_task(start, &mut C::Memory::default(), &mut theta);
        theta
    };
    let prompting = |task| parts.adaptation.prompting(&facts(), task, true).unwrap();
    same(&run, &central(&run, start, begin, prompting));
}

#[test]
fn of_one_client_is_central_training() {
    of_one_is_central(L2p { pull_weight: 0.1, ..small_l2p() });
    of_one_is_central(DualPrompt { pull_weight: 1.0, copy_previous: true, ..small_dual() });
    of_one_is_central(small_coda());
    of_one_is_central(small_contrast(C2lForm::Off));

    let fresh = engine(fedavg_prompt(), 3);
    let start = saved(&fresh);
    let run = fresh.run(1, 2);
    let pool = |_| Arc::new(WeightedPool { blocks: 2 }) as Arc<dyn Prompting>;
    same(&run, &central(&run, start, |_, parameters| parameters, pool));
}

#[test]
fn of_one_client_is_what_it_sent() {
    for method in all() {
        let run = engine(method, 1).run(1, 1);
        let sent = parameters_of(run.exchanges[0].up.as_ref().unwrap()).unwrap();
        assert_eq!(sent.digest(), saved(&run).digest());
    }
}

#[test]
fn of_equal_clients_is_what_each_of_them_sent() {
    for method in all().into_iter().chain([fedavg_prompt()]) {
        let mut alone = engine(Arc::clone(&method), 3);
        let shards = deal(&alone.ctx, &alone.view(0), 1);
        alone.task(0, &shards, 1);
        let body = |body| Message::from_body(body, &[]).unwrap();
        let (sent, upload) = (&alone.last().down, alone.last().up.as_ref().unwrap());
        let (sent, upload) = (Arc::new(body(sent)), body(upload));
        let [down_layout, up_layout] = layouts(&*method, &facts(), &alone, 0);

        let mut run = engine(Arc::clone(&method), 3);
        let stage = Stage::of(run.view(0), 3);
        run.server.begin_stage(&stage, &run.ctx).unwrap();
        let before = saved(&run);
        let participants = one_participant_per_client(&stage, &[0, 1, 2].map(ClientId)).into_iter();
        let aggregate = participants.map(|participant| {
            let (meta, update) =
                (UploadMeta::timely(participant, Round(0)), (upload.clone(), &up_layout));
            Aggregate::of(&meta, (&sent, &down_layout), update).unwrap()
        });
        let aggregate = aggregate.reduce(Aggregate::merge);
        run.server.end_round(&first_round(&stage), aggregate, &run.ctx).unwrap();
        assert_ne!(saved(&run), before);
        for ((name, three), (_, one)) in saved(&run).iter().zip(saved(&alone).iter()) {
            assert!(far(&three.values, &one.values) < 1e-6, "{name}");
        }
    }
}

/// Rows that a task begins with are the server's: no client draws any.
#[test]
fn clients_of_a_task_begin_alike_and_leave_the_backbone_alone() {
    for method in all() {
        let run = engine(method, 3);
        let backbone = run.ctx.backbone.digest().unwrap();
        let run = run.run(3, 1);
        for cohort in run.exchanges.chunks(3) {
            assert!(cohort.iter().all(|own| own.down.digest() == cohort[0].down.digest()));
        }
        assert_eq!(run.ctx.backbone.digest().unwrap(), backbone);
        let sent = parameters_of(run.last().up.as_ref().unwrap()).unwrap();
        let ours = |name: &str| name.starts_with("prompt.") || name.starts_with("head.");
        assert!(sent.iter().all(|(name, _)| ours(name)));
    }
}

/// A single task has a single expert, which is a prefix like any other.
#[test]
fn dualprompt_of_one_task_is_prefix_tuning() {
    let facts = ModelFacts { tasks: 1, ..facts() };
    let start =
        |method| Engine::new(method, facts.clone(), run_context(1, ClassPermutation::Native));
    let dual = start(built(DualPrompt { pool: 1, g_len: 3, ..small_dual() }, &facts));
    let mut prefix = start(fedavg_of(Train::Prompt));
    let names = [("prompt.00", general_name(0)), ("prompt.01", expert_name(1))];
    let mut received = saved(&dual).filter(|name| name.starts_with("head."));
    for (name, of) in &names {
        let values = Arc::clone(&saved(&dual).get(of).unwrap().values);
        received.insert(*name, Parameter { shape: vec![6, 16], values });
    }
    let mut body = prefix.server.save();
    body.sections = fedcast::policy::parameter_sections(&received);
    prefix.server.load(&body).unwrap();
    let (dual, prefix) = (saved(&dual.run(1, 1)), saved(&prefix.run(1, 1)));
    for (name, of) in names {
        let (found, expected) = (dual.get(&of).unwrap(), prefix.get(name).unwrap());
        assert!(near(&found.values, &expected.values), "{name}");
        assert_ne!(received.get(name), Some(expected), "{name} trains");
    }
    let head = |set: &ParameterSet| set.get("head.weight").unwrap().values.to_vec();
    assert!(near(&head(&dual), &head(&prefix)));
}
