#!/usr/bin/env python3
"""Makes tests/vectors: numbers of the core losses, computed by PyTorch in float64 from their definitions.

    pip install torch numpy safetensors
    python3 tools/vectors.py [FOLDER]          # tests/vectors beside this script

Inputs are drawn from a fixed seed and rounded to float32 (statistics stay float64); everything else is evaluated in
float64 with PyTorch's own functions and autograd, never with a formula of the Rust code, and rounded once.
`tolerances.json` allows |got - stored| <= atol: 1e-5 of the largest stored value for float32, 1e-10 for float64.
The tests that read them are named golden_own_*; an entry that no test reads fails. Vectors of released code lie beside
them (released_*), made by vectors_released.py.
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
FILES = {}


class Vectors:
    """One file: `given` are inputs, `expect` results; `grad` adds the gradient of a scalar."""

    def __init__(self, name, seed):
        self.entries, self.tolerances = {}, {}
        self.draws = torch.Generator().manual_seed(seed)
        FILES[name] = self

    def normal(self, name, *shape, scale=1.0, wide=False):
        drawn = scale * torch.randn(*shape, generator=self.draws)
        return self.given(name, drawn, wide)

    def given(self, name, value, wide=False):
        value = torch.as_tensor(value)
        if value.dtype == torch.int64:
            self.entries[name] = value
            return value
        kept = value.detach() if wide else value.detach().float()
        self.put(name, kept)
        return kept.double()

    def expect(self, name, value, wide=False):
        value = torch.as_tensor(value).detach()
        if value.dtype != torch.int64:
            value = value if wide else value.float()
        self.put(name, value)

    def put(self, name, value):
        self.entries[name] = value.contiguous().clone()
        if value.dtype != torch.int64:
            share = 1e-10 if value.dtype == torch.float64 else 1e-5
            largest = float(value.abs().max())
            self.tolerances[name] = {"atol": share * max(largest, 1e-6)}

    def grad(self, name, of, loss):
        """`NAME` is f(x) and `NAME.grad` its gradient at x."""
        x = of.clone().requires_grad_()
        value = loss(x)
        self.expect(name, value)
        self.expect(f"{name}.grad", torch.autograd.grad(value, x)[0])


def kl(first, second):
    """KL(first || second) of log-probabilities, summed."""
    return F.kl_div(second, first, reduction="sum", log_target=True)


def losses():
    v = Vectors("losses", 1)
    z, t = v.normal("z", 5, 7, scale=1.5), v.normal("t", 5, 7, scale=1.5)
    labels = v.given("labels", torch.tensor([2, 4, 3, 2, 3]))

    # Masked cross-entropy: columns of the task at hand, columns seen.
    v.grad("ce.current", z, lambda z: F.cross_entropy(z[:, 2:5], labels - 2))
    v.grad("ce.seen", z, lambda z: F.cross_entropy(z[:, :5], labels))

    # Distillation: p the student's softmax, q the teacher's; means over the batch, without T^2.
    def log_p(x, columns, temperature):
        return (x[:, columns] / temperature).log_softmax(1)

    old = slice(0, 4)
    q, n = log_p(t, old, 2.0), len(z)
    v.grad("kd.kl", z, lambda z: kl(q, log_p(z, old, 2.0)) / n)
    v.grad("kd.cross", z, lambda z: F.cross_entropy(z[:, old] / 2.0, q.exp()))
    v.grad("kd.reverse", z, lambda z: kl(log_p(z, old, 3.0), log_p(t, old, 3.0)) / n)

    v.grad("proximal", z, lambda z: 0.15 * (z - t).square().sum())

    # Not-true distillation at tau 3: each row without its label, tau^2 sum_b v_b KL(teacher || student).
    close = v.given("nottrue.close", torch.tensor([0.9, 0.0, 0.3, 1.0, 0.5]))
    shares = (1.0 - close).softmax(0)
    v.expect("nottrue.shares", shares, wide=True)

    def not_true(z):
        total = 0.0
        for row, told, label, share in zip(z, t, labels, shares):
            wrong = [c for c in range(7) if c != label]
            total = total + share * kl((told[wrong] / 3).log_softmax(0), (row[wrong] / 3).log_softmax(0))
        return 9 * total

    v.grad("nottrue", z, not_true)

    # Fed-CPrompt's contrastive losses: features now, of the received model, of the last task's.
    now, received = v.normal("c2l.now", 4, 6), v.normal("c2l.received", 4, 6)
    before = v.normal("c2l.before", 4, 6)
    # Near the received model, so that both terms count.
    near = v.given("c2l.near", received + 0.2 * now)
    v.grad("c2l.hinge", near,
           lambda x: F.relu(1e3 * (x - received).square().sum() - 10 * (x - before).square().sum() + 1))
    v.grad("c2l.first", near, lambda x: F.relu(1e3 * (x - received).square().sum()))

    def contrast(x):
        pairs = torch.stack([F.cosine_similarity(x, received), F.cosine_similarity(x, before)], 1)
        return F.cross_entropy(pairs / 0.5, torch.zeros(4, dtype=torch.int64))

    v.grad("c2l.softmax", now, contrast)
    v.grad("c2l.prompts", now, lambda x: F.relu(
        (x - received).norm() - 0.7 * torch.minimum((x - before).norm(), (x - near).norm()) + 5.0))

    # FedLwF-2T: alpha CE + beta KL at 2 to an old model on old outputs + the rest to the received one on those seen.
    x = v.given("lwf2t.x", torch.randn(4, 2, generator=v.draws))
    w, b = v.normal("lwf2t.weight", 5, 2), v.normal("lwf2t.bias", 5)
    mine = [v.normal(f"lwf2t.{name}.weight", 5, 2) for name in ("own", "server")]
    bias = [v.normal(f"lwf2t.{name}.bias", 5) for name in ("own", "server")]
    y = v.given("lwf2t.labels", torch.tensor([3, 4, 4, 3]))

    def taught(w):
        own = x @ w.T + b
        told = [x @ m.T + c for m, c in zip(mine, bias)]
        ce = F.cross_entropy(own[:, 3:5], y - 3)
        divergences = [kl((q[:, :k] / 2).log_softmax(1), (own[:, :k] / 2).log_softmax(1)) / 4
                       for q, k in zip(told, (3, 5))]
        return 0.2 * ce + 0.5 * divergences[0] + 0.3 * divergences[1]

    v.grad("lwf2t", w, taught)

    # FedHAF: new samples have labels 2 and 3. The previous model has no module: it adjusts nothing.
    features, adjusted = v.normal("haf.features", 6, 4), v.normal("haf.adjusted", 6, 4)
    y = v.given("haf.labels", torch.tensor([2, 0, 3, 1, 2, 0]))
    old = y < 2

    def feature_distance(g):
        return (g[old] - features[old]).square().sum(1).mean()

    def balance(g, width=1.0):
        norms = (g.square().sum(1) / width).sqrt()
        mean = [norms[y == label].mean() for label in range(4)]
        return ((mean[2] + mean[3]) / 2 - (mean[0] + mean[1]) / 2).square()

    v.grad("haf.fd", adjusted, feature_distance)
    v.grad("haf.fb", adjusted, balance)
    v.grad("haf.module.mean", adjusted, lambda g: 2.0 * feature_distance(g) / 4 + 0.5 * balance(g, 4.0))

    # C2Prompt's compensation: the negative log-likelihood of a Gaussian above its least value.
    f, mu = v.normal("nll.features", 3, 4), v.normal("nll.mean", 3, 4)
    variance = v.given("nll.variance", torch.rand(3, 4, generator=v.draws) + 0.2, wide=True)
    floored = torch.maximum(variance, 0.8 * variance.mean(1, keepdim=True)) + 1e-2
    normal = torch.distributions.Normal(mu, floored.sqrt())

    def surplus(f):
        return (normal.log_prob(mu) - normal.log_prob(f)).sum(1)

    v.expect("nll.each", surplus(f))
    v.grad("nll", f, lambda f: surplus(f).sum())

    # HGP's rebalancing: rows [1, 5) of a head, plain and by normalised logits at 0.1.
    h, weight, bias = v.normal("head.h", 8, 5), v.normal("head.weight", 6, 5), v.normal("head.bias", 6)
    y = v.given("head.labels", torch.tensor([1, 2, 3, 4, 4, 1, 2, 4]))

    def logits(w, b):
        return (h @ w.T + b)[:, 1:5]

    def normalised(w, b):
        return F.normalize(logits(w, b), dim=1) / 0.1

    for name, form in (("head.plain", logits), ("head.normalised", normalised)):
        both = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
        loss = F.cross_entropy(form(*both), y - 1)
        by_weight, by_bias = torch.autograd.grad(loss, both)
        v.expect(name, loss)
        v.expect(f"{name}.grad_weight", by_weight[1:5])
        v.expect(f"{name}.grad_bias", by_bias[1:5])


def selection():
    v = Vectors("selection", 2)
    queries, keys = v.normal("queries", 4, 6), v.normal("keys", 5, 6)
    attention, prompts = v.normal("attention", 5, 6), v.normal("prompts", 5, 3, 6)
    mix = v.normal("mix", 4, 3, 6)

    def cosines(keys):
        return F.cosine_similarity(queries[:, None], keys[None], dim=2)

    # L2P: the best two keys, which are pulled; DualPrompt: the nearest of experts 1 to 3.
    v.expect("cosines", cosines(keys))
    v.expect("l2p.best", cosines(keys).topk(2).indices)
    v.expect("dualprompt.expert", 1 + cosines(keys)[:, 1:4].argmax(1))
    v.grad("l2p.pull", keys, lambda keys: -0.1 * cosines(keys).topk(2).values.sum(1).mean())
    v.grad("dualprompt.pull", keys, lambda keys: -cosines(keys)[:, 2].mean())

    # CODA-Prompt: cosines of attended queries, weighted components of the first four.
    def weights(attention, keys):
        return F.cosine_similarity(queries[:, None] * attention[None], keys[None], dim=2)[:, :4]

    v.expect("coda.weights", weights(attention, keys))
    v.expect("coda.softmax", weights(attention.softmax(1), keys))
    v.expect("coda.prompt", torch.einsum("bm,mld->bld", weights(attention, keys), prompts[:4]))
    parts = [x.clone().requires_grad_() for x in (attention, keys, prompts)]
    output = torch.einsum("bm,mld->bld", weights(*parts[:2]), parts[2][:4])
    slopes = torch.autograd.grad((output * mix).sum(), parts)
    for name, slope in zip(("attention", "keys", "prompts"), slopes):
        v.expect(f"coda.grad_{name}", slope[:4])

    def penalty(rows):
        rows = rows[:4].flatten(1)
        return F.mse_loss(rows @ rows.T, torch.eye(4))

    v.grad("coda.penalty", prompts, penalty)


def statistics():
    v = Vectors("statistics", 3)
    # Ridge as least squares with sqrt(lambda) times the identity below the rows.
    rows = v.normal("ridge.rows", 20, 5, wide=True)
    y = v.given("ridge.labels", torch.randint(0, 3, (20,), generator=v.draws))
    targets = F.one_hot(y, 3).double()
    relative = 0.2 * rows.square().sum() / 5
    for name, penalty in (("absolute", torch.tensor(0.5)), ("relative", relative)):
        below = torch.cat([rows, penalty.sqrt() * torch.eye(5)])
        found = torch.linalg.lstsq(below, torch.cat([targets, torch.zeros(5, 3)])).solution
        v.expect(f"ridge.{name}", found.T, wide=True)

    # C2Prompt's aggregation: unit rows of clipped scores, a softmax over each component's own row.
    h = v.normal("cpa.histograms", 4, 3, wide=True).abs() * torch.tensor([[1.0], [3.0], [0.5], [2.0]])
    h[1, 2] = -0.4
    v.given("cpa.histograms", h, wide=True)
    p = v.given("cpa.components", torch.randn(4, 6, generator=v.draws))
    for name, scaled in (("raw", h), ("unit", F.normalize(h.clamp(min=0), dim=1))):
        w = F.softmax(scaled @ scaled.T / 0.3, dim=1)
        v.expect(f"cpa.{name}", w, wide=True)
        v.expect(f"cpa.{name}.mixed", w @ p)

    # HGP: Gaussians of two clients, of both together, and a mixture with inflated variances.
    ones, others = v.normal("gauss.one", 7, 3, wide=True), v.normal("gauss.other", 4, 3, scale=2.0, wide=True)
    both = torch.cat([ones, others])
    v.expect("gauss.mean", both.mean(0), wide=True)
    v.expect("gauss.variance", both.var(0), wide=True)
    v.expect("gauss.biased", both.var(0, correction=0), wide=True)
    v.expect("gauss.covariance", both.T.cov(), wide=True)
    share = torch.tensor([7 / 11, 4 / 11])
    means = torch.stack([ones.mean(0), others.mean(0)])
    spreads = torch.stack([ones.var(0), others.var(0)])
    family = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(probs=share.expand(3, 2)),
        torch.distributions.Normal(means.T, (3 * spreads.T).sqrt()))
    v.expect("gauss.mixture_mean", family.mean, wide=True)
    v.expect("gauss.mixture_variance", family.variance, wide=True)


def hepco():
    v = Vectors("hepco", 4)
    blocks, pool, length, dim, seen = 2, 3, 2, 5, 4

    def model(name):
        return {
            "keys": v.normal(f"{name}.keys", blocks, pool, dim),
            "prompts": v.normal(f"{name}.prompts", blocks, pool, length * dim, scale=0.5),
            "weight": v.normal(f"{name}.weight", seen, dim),
            "bias": v.normal(f"{name}.bias", seen, scale=0.3),
        }

    server, clients, previous = model("server"), [model("client0"), model("client1")], model("previous")
    # Six classes in all; the task's are 2 and 3, nobody has 0, 1, 4, 5.
    counts = v.given("counts", torch.tensor([[0, 0, 5, 1, 0, 0], [0, 0, 2, 9, 0, 0]]))
    z, labels = v.normal("z", 6, dim), v.given("labels", torch.tensor([2, 3, 3, 2, 3, 3]))
    z_old, labels_old = v.normal("z_old", 3, dim), v.given("labels_old", torch.tensor([0, 1, 1]))
    released = counts / counts.sum(0).clamp(min=1).sum()
    normalised = counts / counts.sum()
    v.expect("omega.release", released)
    v.expect("omega.normalised", normalised)

    def log_p(of, z):
        return (z @ of["weight"].T + of["bias"]).log_softmax(1)

    def rho(of, z):
        """Weighted prompts (blocks, b, length dim)."""
        found = F.cosine_similarity(z[None, :, None], of["keys"][:, None], dim=3)
        return torch.einsum("jbm,jmp->jbp", found, of["prompts"])

    def each(first, second):
        return F.kl_div(second, first, reduction="none", log_target=True).sum(1)

    def apart(one, other, z):
        return (rho(one, z) - rho(other, z)).square().sum((0, 2))

    def terms(z, weights):
        """Weighted sums over samples and clients."""
        pairs = [(client, share[labels]) for client, share in zip(clients, weights)]
        return {
            "classification": sum((s * F.nll_loss(log_p(c, z), labels, reduction="none")).sum() for c, s in pairs),
            "client_server": sum((s * each(log_p(c, z), log_p(server, z))).sum() for c, s in pairs),
            "server_client": sum((s * each(log_p(server, z), log_p(c, z))).sum() for c, s in pairs),
            "distance": sum((s * apart(server, c, z)).sum() for c, s in pairs),
            "accuracy": sum((s * (log_p(c, z).argmax(1) == labels)).sum() for c, s in pairs)
                        / sum(s.sum() for _, s in pairs),
        }

    for name, value in terms(z, normalised).items():
        v.expect(f"terms.{name}", value)

    # What a generator minimises: lambda_kl 0.7, lambda_mse 0.3.
    def objective(kl, distance, weights):
        def loss(z):
            t = terms(z, weights)
            return t["classification"] - 0.7 * t[kl] - 0.3 * distance(t["distance"])
        return loss

    entries = len(z) * length * dim
    v.grad("detached", z, objective("client_server", lambda d: d.detach(), normalised))
    v.grad("mean", z, objective("client_server", lambda d: d / entries, normalised))
    v.grad("sum", z, objective("client_server", lambda d: d, normalised))
    v.grad("paper", z, objective("server_client", lambda d: d, torch.ones(2, 6)))

    # Distillation of prompts: clients about new queries, the previous server about old ones.
    def distillation(student):
        new = sum((share[labels] * apart(student, client, z)).sum() for client, share in zip(clients, normalised))
        return new + apart(student, previous, z_old).sum()

    student = {name: part.clone().requires_grad_() for name, part in server.items()}
    loss = distillation(student)
    by_keys, by_prompts = torch.autograd.grad(loss, (student["keys"], student["prompts"]))
    v.expect("distillation", loss)
    v.expect("distillation.grad_keys", by_keys)
    v.expect("distillation.grad_prompts", by_prompts)

    # Distillation of the head: all classes seen compete.
    every, all_labels = torch.cat([z, z_old]), torch.cat([labels, labels_old])
    loss = F.cross_entropy(every @ student["weight"].T + student["bias"], all_labels)
    by_weight, by_bias = torch.autograd.grad(loss, (student["weight"], student["bias"]))
    v.expect("head", loss)
    v.expect("head.grad_weight", by_weight)
    v.expect("head.grad_bias", by_bias)


def write(folder, metadata=None):
    """Writes all files, and their tolerances beside those of files that were not made now."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, vectors in FILES.items():
        save_file(vectors.entries, folder / f"{name}.safetensors", metadata=(metadata or {}).get(name))
    beside = folder / "tolerances.json"
    tolerances = json.loads(beside.read_text()) if beside.exists() else {}
    tolerances.update((name, vectors.tolerances) for name, vectors in FILES.items())
    beside.write_text(json.dumps(tolerances, indent=0, sort_keys=True) + "\n")


def main():
    folder = pathlib.Path(__file__).parent.parent / "tests" / "vectors"
    for make in (losses, selection, statistics, hepco):
        make()
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else folder)


if __name__ == "__main__":
    main()
