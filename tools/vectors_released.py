#!/usr/bin/env python3
"""Makes tests/vectors/released_*.safetensors: what the released code of a method answers to small inputs.

    pip install torch numpy safetensors
    python3 tools/vectors_released.py --hepco DIR --powder DIR --stsa DIR --coda DIR --fed-cprompt DIR --fed-mammoth DIR
    python3 tools/vectors_released.py --stsa DIR --out FOLDER      # one of them, elsewhere than in tests/vectors

DIR is a checkout of the repository in RELEASES, at the commit named there (where it has a .git that is checked; `git
archive` leaves none). Nothing of a release is copied or written anew here: its modules are imported from DIR and its own
functions run, on the CPU. What does not matter to them is taken away: `.cuda()` moves nothing, packages that are not
installed (image folders, plots, weights from the network) are empty, loaders have no processes of their own. Methods of
large classes get a stand-in for `self` with what they read. Where a function draws (labels, orders, new components) the
draws are stored with what came of them, so that both sides work on the same.

Numbers are evaluated in float64, PyTorch's default type being set to it, and stored, with tolerances, as by vectors.py.
The tests that read them are named golden_released_*.
"""

import argparse
import contextlib
import importlib
import io
import pathlib
import subprocess
import sys
import types
import warnings

import numpy as np
import torch
from torch import nn

from vectors import Vectors, write

RELEASES = {
    "hepco": ("shaunak27/hepco-fed", "496632568b6b6ac9dffa3be63c20a3127ccafecd"),
    "powder": ("piaohongming/Powder", "ae7beebf53ad2d387e7d58aeb036e6686144dd30"),
    "stsa": ("Yuqin-G/STSA", "aaaa006e0b63ebc637b16118925b0e19730c7d25"),
    "coda": ("GT-RIPL/CODA-Prompt", "6417d4f68754be68b697c7ca2323ee61e791e1a3"),
    "fed-cprompt": ("grbagwe/Fed-CPrompt", "a19c98b90e28d134e867a39f9f686a10369f6007"),
    "fed-mammoth": ("aimagelab/fed-mammoth", "09a9508890c7989c313a47c656cc3e656311c4be"),
}

# Of none of these any number depends on what is run.
EMPTY = {
    "dataloaders", "fairscale", "Fed_utils", "iCIFAR100", "kornia", "lightning", "matplotlib", "pandas", "PIL", "scipy",
    "sklearn", "timm", "torchvision", "tqdm", "transformers", "wandb",
}


class Endless(type):
    """A class has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Nothing(metaclass=Endless):
    """Whatever a package that is not here is asked for: a class to derive from, a function, a constant."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, _):
        return Nothing()


class Hollow(types.ModuleType):
    """A module of nothing but that; `from it import *` gives no name."""

    __path__, __all__ = [], []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Hollows:
    """Finds those modules."""

    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in EMPTY:
            return importlib.machinery.ModuleSpec(name, Hollows)
        return None

    @staticmethod
    def create_module(spec):
        return Hollow(spec.name)

    @staticmethod
    def exec_module(_):
        pass


@contextlib.contextmanager
def release(folder):
    """Imports from a checkout; afterwards its modules are forgotten, so that another may have the same names."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield importlib.import_module
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        # A folder without __init__.py has a path and no file.
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
        if isinstance(module, Hollow) or any(place and pathlib.Path(place).is_relative_to(folder) for place in places):
            del sys.modules[name]


def on_cpu():
    sys.meta_path.insert(0, Hollows)
    torch.Tensor.cuda = lambda self, *_, **__: self
    nn.Module.cuda = lambda self, *_, **__: self


def patched(of, **names):
    """Exchanges attributes for as long as the block runs."""
    stack = contextlib.ExitStack()
    for name, value in names.items():
        stack.callback(setattr, of, name, getattr(of, name))
        setattr(of, name, value)
    return stack


def parameter(value):
    return nn.Parameter(value.clone())


class Steps:
    """Stands for Adam: a step keeps the gradients and moves nothing."""

    taken = []

    def __init__(self, parameters, **_):
        self.parameters = list(parameters)

    def step(self):
        Steps.taken.append([None if p.grad is None else p.grad.clone() for p in self.parameters])

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None


@contextlib.contextmanager
def noted_steps():
    """Losses on which `backward` was called, and the gradients of each step."""
    losses, backward = [], torch.Tensor.backward

    def noted(loss, *rest, **named):
        losses.append(loss.detach().clone())
        backward(loss, *rest, **named)

    Steps.taken = []
    with patched(torch.Tensor, backward=noted), patched(torch.optim, Adam=Steps):
        yield losses, Steps.taken


def bar(iterable, **_):
    """A progress bar that shows nothing."""

    class Bar(list):
        def set_description(self, _):
            pass

    return Bar(iterable)


# HePCo ------------------------------------------------------------------------------------------------------------------


class Asked(nn.Module):
    """Stands for a generator: its answers are its parameter, whatever it is asked for."""

    drawn, made = [], []

    def __init__(self, *_):
        super().__init__()
        self.answers, self.labels = parameter(Asked.drawn[len(Asked.made)]), []
        Asked.made.append(self)

    def forward(self, labels, _noise):
        self.labels.append(labels.clone())
        return self.answers[:len(labels)]


def hepco(folder, name):
    """`Trainer.train_generator` and `Trainer.knowledge_distillation` as a whole, and `L2P.forward`."""
    v = Vectors(name, 11)
    blocks, pool, length, dim, classes = 2, 5, 2, 4, 6
    with release(folder) as load:
        zoo, trainer = load("models.zoo_old"), load("trainer")

        def learner(name):
            net = zoo.ResNetZoo.__new__(zoo.ResNetZoo)
            nn.Module.__init__(net)
            net.prompt = zoo.L2P(dim, 3, [pool, length, 1, 0], key_dim=dim, prompt_type="weighted_l2p")
            net.prompt.e_layers = list(range(blocks))
            net.last = nn.Linear(dim, classes)
            keys, prompts = v.normal(f"{name}.keys", blocks, pool, dim), v.normal(f"{name}.prompts", blocks, pool, length * dim)
            for block in range(blocks):
                setattr(net.prompt, f"e_k_{block}", parameter(keys[block]))
                setattr(net.prompt, f"e_p_{block}", parameter(prompts[block].view(pool, length, dim)))
            net.last.weight.data[:4] = v.normal(f"{name}.weight", 4, dim)
            net.last.bias.data[:4] = v.normal(f"{name}.bias", 4)
            return types.SimpleNamespace(model=nn.DataParallel(net), tasks_real=[[0, 1], [2, 3], [4, 5]])

        server, clients = learner("server"), [learner("client0"), learner("client1")]
        previous = learner("previous")
        counts = v.given("counts", torch.tensor([[0, 0, 5, 1, 0, 0], [0, 0, 2, 9, 0, 0]]))
        before = v.given("counts_before", torch.tensor([7, 3, 0, 0, 0, 0]))
        by_class = lambda row: {label: int(count) for label, count in enumerate(row)}
        it = types.SimpleNamespace(
            server=server, prev_server=previous, learners=clients, n_clients=2, num_classes=classes, current_t_index=1,
            server_config={"gpuid": [0]}, server_test_dataset=types.SimpleNamespace(class_mapping=by_class(range(classes))),
            label_counts=[by_class(row) for row in counts], label_counts_round=by_class(counts.sum(0)),
            label_counts_server_last_task=by_class(before), generator_epochs=1, kd_epochs=1, noise_dimension=2,
            generator_lr=1e-4, kd_lr=1e-4, kl=True, lambda_KL=0.7, lambda_mse=0.3, replay_ratio=0.25)
        Asked.drawn, Asked.made = [v.normal("z", 64, dim), v.normal("z_old", 64, dim)], []
        np.random.seed(5)

        # A prompt, keys before values, and what it does to its query: nothing.
        queries = Asked.drawn[0][:3].clone().requires_grad_()
        (keys, values), _, _ = server.model.module.prompt.forward(queries, 1, None, train=False)
        v.expect("prompt.keys", keys)
        v.expect("prompt.values", values)
        told, = torch.autograd.grad(keys.sum() + values.sum(), queries, allow_unused=True)
        assert told is None or not told.any(), "the release detaches its query"

        with patched(trainer, Generator=Asked, tqdm=bar), noted_steps() as (losses, steps):
            trainer.Trainer.train_generator(it)
            new, old = Asked.made
            v.given("labels", new.labels[-1])
            v.expect("generator", losses[0])
            v.expect("generator.grad", steps[0][0])
            # Of the many steps of the other the last one; its answers never moved.
            v.given("labels_old", old.labels[-1])
            v.expect("generator_old", losses[-1])
            v.expect("generator_old.grad", steps[-1][0])

            asked = [len(new.labels), len(old.labels)]
            first = len(losses)
            trainer.Trainer.knowledge_distillation(it)
            assert len(losses) == first + 2
            for place, what in enumerate(("prompts", "head")):
                v.given(f"{what}.labels", new.labels[asked[0] + place])
                v.given(f"{what}.labels_old", old.labels[asked[1] + place])
            named = [name for name, _ in server.model.module.prompt.named_parameters()]
            slopes = dict(zip(named, steps[-2]))
            v.expect("distillation", losses[first])
            for short, of in (("keys", "e_k_"), ("prompts", "e_p_")):
                v.expect(f"distillation.grad_{short}", torch.stack([slopes[f"{of}{block}"] for block in range(blocks)]))
            v.expect("head", losses[first + 1])
            v.expect("head.grad_weight", steps[-1][0])
            v.expect("head.grad_bias", steps[-1][1])


# Powder -----------------------------------------------------------------------------------------------------------------


def powder(folder, name):
    """`updateweight_with_promptchoosing` over three periods, `calculate_distillation_weight`, `_ntd_loss`."""
    v = Vectors(name, 12)
    clients, classes, blocks, components = 3, 3, 2, 2
    with release(folder / "src") as load:
        model, learner = load("models_Cprompt.vit_coda_p_hard"), load("prompt_hard")

        def look(_data, client, task, scored, kept, finished_task):
            """Mean scores of the classes of a slot on the slots `kept`, drawn here."""
            assert set(kept) <= set(scored)
            slot = task * clients + client
            means = 0.6 + 0.5 * torch.randn(classes, blocks, len(kept), components, generator=v.draws)
            means = v.given(f"look{it.period}.{slot}", means)
            each = {slot * classes + c: means[c].flatten(1) for c in range(classes)}
            return means.mean(0).flatten(1), each

        slots = 3 * clients
        own = lambda client, task: [(task * clients + client) * classes + c for c in range(classes)]
        it = types.SimpleNamespace(
            args=types.SimpleNamespace(method="codap_2d_v2", tasks_global=1, class_per_task=classes), device="cpu",
            params={"task_index": 4, "class_index": 4, "topk_for_task_selection": 3, "topk_for_class": 3},
            prompt=types.SimpleNamespace(num_clients=clients, weight=torch.zeros(slots, slots),
                                         weight_c=torch.zeros(slots, slots), fc_weight=torch.eye(slots * classes)),
            class_distribution=[[own(c, t) for t in range(3)] for c in range(clients)], calculate_prompt_choosing=look)
        state = {key: {} for key in ("choosing", "choosing_class", "finished_task", "finished_task_forchoosing",
                                     "finished_class", "global_task_id_real", "class_real")}
        known = []
        # By period: who goes on with a slot; where everybody stood before.
        for it.period, (go_on, stood) in enumerate((([], (0, 0, 0)), ([0], (0, 0, 0)), ([1], (0, 1, 1)))):
            models = [types.SimpleNamespace(real_task_id=task) for task in stood]
            everybody = list(range(clients))
            model.ResNetZoo_hard.updateweight_with_promptchoosing(
                it, everybody, everybody, go_on, None, True, it.period, models, list(known), *state.values(), it.args,
                it.period)
            now = [stood[c] * clients + c if c in go_on else it.period * clients + c for c in everybody]
            known = sorted(set(known) | set(now))
            v.given(f"period{it.period}.slots", torch.tensor(known))
            v.given(f"period{it.period}.asked", torch.tensor(now))
            v.expect(f"period{it.period}.weights", it.prompt.weight[known][:, known], wide=True)
            v.expect(f"period{it.period}.mixed", it.prompt.weight_c[now][:, known], wide=True)
            chosen = torch.stack([state["finished_task_forchoosing"][slot] for slot in now])
            v.expect(f"period{it.period}.similar", torch.tensor(known)[[known.index(s) for s in chosen.flatten()]].view(3, 3))

            # What a batch of the first of them is distilled by: samples of its classes.
            targets = torch.tensor([now[0] * classes + c for c in (2, 0, 0, 1)])
            hard = types.SimpleNamespace(
                model=types.SimpleNamespace(prompt=it.prompt, args=it.args), KLDiv=nn.KLDivLoss(reduction="none"),
                numclass=slots * classes, current_class=own(now[0] % clients, now[0] // clients))
            owner = learner.DualPrompt_hard
            hard.calculate_distillation_weight = lambda targets: owner.calculate_distillation_weight(hard, targets)
            hard.refine_as_not_true = lambda *those: owner.refine_as_not_true(hard, *those)
            v.expect(f"period{it.period}.shares", hard.calculate_distillation_weight(targets), wide=True)
            if it.period == 2:
                first = now[0] * classes
                student, teacher = (v.normal(f"ntd.{who}", 4, classes) for who in ("student", "teacher"))
                wide = lambda z: nn.functional.pad(z, (first, slots * classes - first - classes), value=0.3)
                v.grad("ntd", student, lambda z: owner._ntd_loss(hard, wide(z), wide(teacher), targets).sum())


# STSA -------------------------------------------------------------------------------------------------------------------


def stsa(folder, name):
    """`STSA.replace_fc_ours3` (units), `STSA.replace_fc1` (exact) over two tasks, and the head that answers."""
    v = Vectors(name, 13)
    width, hidden, classes, units = 5, 6, 4, 3
    # A client with fewer samples than units, a class with fewer than all units, clients without a class.
    plan = {0: [(0, 7), (1, 2)], 1: [(0, 4), (1, 5)], 2: [(1, 2)]}
    later = {0: [(2, 5), (3, 1)], 1: [(2, 1), (3, 1)], 2: [(2, 2), (3, 2)]}
    with release(folder) as load:
        method, linears = load("methods.STSA"), load("convs.linears")
        layer = v.normal("layer", width, hidden, wide=True)
        loader = torch.utils.data.DataLoader
        plain = lambda data, batch_size, **_: loader(data, batch_size=batch_size, shuffle=False)

        def learner():
            fc = linears.CosineLinear(hidden, classes)
            fc.W_rand = layer
            made = types.SimpleNamespace(
                args={"M": hidden, "nb_classes": classes, "frac": 1.0, "num_users": 3, "local_bs": 4, "dummy": units,
                      "ridge": 0.5},
                W_rand=layer, P=torch.zeros(hidden, classes), G=torch.zeros(hidden, hidden),
                _network=types.SimpleNamespace(fc=fc, RP_dim=hidden))
            made.compute_multiple_sum_by_class = lambda *those: method.STSA.compute_multiple_sum_by_class(made, *those)
            # Features are the data.
            made.model = nn.Module()
            made.model.fc, made.model.extract_vector = fc, lambda data: data
            return made

        estimated, exact = learner(), learner()
        torch.manual_seed(3)
        with patched(method, DataLoader=plain):
            for task, shards in enumerate((plan, later)):
                owners = [(client, label) for client, held in shards.items() for label, n in held for _ in range(n)]
                x = v.normal(f"task{task}.x", len(owners), width, wide=True)
                labels = v.given(f"task{task}.labels", torch.tensor([label for _, label in owners]))
                v.given(f"task{task}.clients", torch.tensor([client for client, _ in owners]))
                data = [(i, x[i], int(labels[i])) for i in range(len(owners))]
                groups = {c: [i for i, (owner, _) in enumerate(owners) if owner == c] for c in shards}
                for it, run in ((estimated, method.STSA.replace_fc_ours3), (exact, method.STSA.replace_fc1)):
                    it.user_groups = groups
                    run(it, None, it.model, it.args, data)
                v.expect(f"task{task}.unit_sums", torch.stack(estimated.mu_list), wide=True)
                v.expect(f"task{task}.unit_counts", torch.stack([torch.stack(list(row)) for row in estimated.ss_list]))
                for what, it in (("estimated", estimated), ("exact", exact)):
                    v.expect(f"task{task}.{what}.gram", it.G, wide=True)
                    v.expect(f"task{task}.{what}.weights", it._network.fc.weight)
                v.expect(f"task{task}.sums", estimated.P.T, wide=True)
        asked = v.normal("asked", 4, width, wide=True)
        # The release keeps weights in float32.
        estimated._network.fc.double()
        v.expect("scores", estimated._network.fc(asked)["logits"], wide=True)


# CODA-Prompt and Fed-CPrompt --------------------------------------------------------------------------------------------


def coda(folder, name):
    """`CodaPrompt.forward` with its penalty in the second of three tasks, and the components that begin then."""
    v = Vectors(name, 14)
    pool, length, dim = 6, 4, 10
    with release(folder) as load:
        zoo = load("models.zoo")
        made = zoo.CodaPrompt(dim, 3, [pool, length, 0.25], key_dim=dim)
        made.e_layers = [0]
        # What is drawn for the components of the second task: of keys, attention and prompts, in turn.
        draws = {"K": (2, dim), "A": (2, dim), "p": (2, length * dim)}
        draws = [v.normal(f"draw.{part}", *shape) for part, shape in draws.items()]
        queue = iter([row for part in draws for row in part])
        start = {part: v.normal(f"start.{part}", *shape) for part, shape in
                 (("K", (2, dim)), ("A", (2, dim)), ("p", (2, length, dim)))}
        for part, short in (("K", "k"), ("A", "a"), ("p", "p")):
            rest = torch.zeros(pool - 2, *start[part].shape[1:])
            setattr(made, f"e_{short}_0", parameter(torch.cat([start[part], rest])))
        with patched(torch, randn_like=lambda _: next(queue)):
            made.process_task_count()
        assert next(queue, None) is None, "every draw is used"
        parts = {part: getattr(made, f"e_{part}_0") for part in ("k", "a", "p")}
        for part, value in parts.items():
            v.expect(f"began.{part}", value[2:4])

        # Components off their start, so that the penalty has something to say.
        for part, value in parts.items():
            value.data = v.given(f"now.{part}", value.detach() + 0.2 * torch.randn(value.shape, generator=v.draws))[:]
        queries = v.normal("queries", 3, dim)
        (keys, values), penalty, _ = made.forward(queries, 0, None, train=True)
        v.expect("keys", keys)
        v.expect("values", values)
        v.expect("penalty", penalty)
        mix = v.normal("mix", 3, length, dim)
        loss = (torch.cat([keys, values], 1) * mix).sum() + penalty
        v.expect("loss", loss)
        for part, slope in zip(parts, torch.autograd.grad(loss, list(parts.values()))):
            v.expect(f"grad.{part}", slope[:4])


def fed_cprompt(folder, name):
    """The losses of features, and prompts with a softmax over attention."""
    v = Vectors(name, 15)
    with release(folder) as load:
        learner, prompts = load("learners.prompt"), load("models.vit_coda_p")
        received, before, step = (v.normal(what, 3, 5) for what in ("received", "before", "step"))
        near = v.given("now", received + 0.1 * step)
        v.grad("c2l", near, lambda z: learner.TripletLoss(margin=1)(z, received, before))
        v.grad("c2l.first", near, lambda z: learner.positive_loss()(z, received))
        # Near the previous model instead nothing is left of it.
        v.expect("c2l.nothing", learner.TripletLoss(margin=1)(received + 1e-3 * step, received, before))

        dim, pool, length = 6, 4, 2
        made = prompts.CodaPrompt(dim, 2, [pool, length, 1, -1, 0], key_dim=dim)
        for part, shape in (("k", (pool, dim)), ("a", (pool, dim)), ("p", (pool, length, dim))):
            setattr(made, f"e_{part}_0", parameter(v.normal(f"components.{part}", *shape, scale=2.0 if part == "a" else 1.0)))
        made.process_frequency()
        (keys, values), _, _ = made.forward(v.normal("queries", 3, dim), 0, None, train=True)
        v.expect("keys", keys)
        v.expect("values", values)


# L2P and DualPrompt as fed-mammoth runs them ----------------------------------------------------------------------------


def fed_mammoth(folder, name):
    """`Prompt.forward` of L2P, `EPrompt.forward` of DualPrompt: choice, pull, and whose prefixes an image gets."""
    v = Vectors(name, 16)
    dim, pool = 6, 4
    with release(folder) as load:
        first, second = load("_networks.vit_prompt_l2p"), load("_networks.vit_prompt_dual")
        queries, keys = v.normal("queries", 5, dim), v.normal("keys", pool, dim)
        patches = torch.zeros(5, 1, dim)
        l2p = first.Prompt(length=2, embed_dim=dim, embedding_key="cls", pool_size=pool, top_k=2)
        l2p.prompt.data = v.normal("l2p.pool", pool, 2, dim)

        def pulled(keys):
            l2p.prompt_key = keys
            return -0.1 * l2p.forward(patches, cls_features=queries)["reduce_sim"]

        del l2p.prompt_key
        v.grad("l2p.pull", keys, pulled)
        found = l2p.forward(patches, cls_features=queries)
        v.expect("l2p.chosen", found["prompt_idx"])
        # The tokens come first in what the network goes on with.
        v.expect("l2p.tokens", found["prompted_embedding"][:, :4])

        dual = second.EPrompt(length=2, embed_dim=dim, embedding_key="cls", prompt_pool=True, prompt_key=True,
                              pool_size=pool, top_k=1, num_layers=2, use_prefix_tune_for_e_prompt=True, num_heads=3)
        # (blocks, keys and values, experts, length, heads, d / heads)
        dual.prompt.data = v.normal("dual.pool", 2, 2, pool, 2, dim).view(2, 2, pool, 2, 3, dim // 3)
        del dual.prompt_key

        def given(keys, images=5):
            dual.prompt_key = keys
            return dual.forward(patches, prompt_mask=torch.full((images, 1), 2), cls_features=queries)

        v.grad("dual.pull", keys, lambda keys: -given(keys)["reduce_sim"])
        found = dual.forward(patches, cls_features=queries)
        v.expect("dual.nearest", found["prompt_idx"].flatten())
        v.expect("dual.prefixes", found["batched_prompt"].reshape(2, 5, 2, 2, dim))
        v.expect("dual.prefixes_given", given(keys)["batched_prompt"].reshape(2, 5, 2, 2, dim))


MAKERS = {"hepco": hepco, "powder": powder, "stsa": stsa, "coda": coda, "fed-cprompt": fed_cprompt, "fed-mammoth": fed_mammoth}


def checked(folder, repository, commit):
    """The folder, unless it says of itself that it is at another commit."""
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder")
    if (folder / ".git").exists():
        found = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        if found.stdout.strip() != commit:
            sys.exit(f"{folder}: {repository} is wanted at {commit}, this is {found.stdout.strip()}")
    return folder.resolve()


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, (repository, commit) in RELEASES.items():
        options.add_argument(f"--{name}", type=pathlib.Path, metavar="DIR", help=f"{repository} at {commit}")
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "tests" / "vectors")
    told = vars(options.parse_args())
    on_cpu()
    releases = {}
    for name, make in MAKERS.items():
        folder = told[name.replace("-", "_")]
        if folder is None:
            continue
        repository, commit = RELEASES[name]
        file = f"released_{name.replace('-', '_')}"
        make(checked(folder, repository, commit), file)
        # One entry: several have no order.
        releases[file] = {"release": f"https://github.com/{repository}/tree/{commit}"}
    if not releases:
        options.error("no checkout is named")
    write(told["out"], releases)


if __name__ == "__main__":
    main()
