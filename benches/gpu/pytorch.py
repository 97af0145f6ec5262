#!/usr/bin/env python3
"""The training steps of the bench `gpu` in PyTorch, for a ratio on the same card in the same hour.

    python3 benches/gpu/pytorch.py                     # bf16 and f32, packs of 1, 8, 16 and 32
    python3 benches/gpu/pytorch.py --compile           # with torch.compile
    python3 benches/gpu/pytorch.py --device cpu --packs 1

ViT-B/16 with random frozen weights; every client of a pack has a batch of 16 images of its own and trains a prefix
prompt of 20 tokens in each of the first five blocks (hgp) or LoRA pairs of rank 4 at queries and values of every block
(lora), with a linear head of ten classes and AdamW. Images are sent from host memory at every step. Products are in
the type named, everything that trains is in f32. Attention is PyTorch's fused one.
"""

import argparse
import time

import torch
import torch.nn.functional as F

DIM, DEPTH, HEADS, MLP, TOKENS, IMAGE, PATCH = 768, 12, 12, 3072, 197, 224, 16
CLASSES, BATCH, PROMPTED, PROMPT, RANK = 10, 16, 5, 20, 4


class Frozen:
    """Weights of the backbone, in the type of the products."""

    def __init__(self, device, dtype):
        draw = lambda *shape: (torch.randn(*shape, device=device) * 0.02).to(dtype)
        ones, zeros = torch.ones(DIM, device=device, dtype=dtype), torch.zeros(DIM, device=device, dtype=dtype)
        self.patch, self.patch_bias = draw(DIM, 3 * PATCH * PATCH), draw(DIM)
        self.token, self.position = draw(1, 1, DIM), draw(1, TOKENS, DIM)
        self.blocks = [
            dict(
                norm1=(ones, zeros), qkv=(draw(3 * DIM, DIM), draw(3 * DIM)), proj=(draw(DIM, DIM), draw(DIM)),
                norm2=(ones, zeros), fc1=(draw(MLP, DIM), draw(MLP)), fc2=(draw(DIM, MLP), draw(DIM)),
            )
            for _ in range(DEPTH)
        ]
        self.norm = (ones, zeros)


class Pack:
    """What the clients of a pack train, with a leading axis of clients."""

    def __init__(self, kind, clients, device):
        draw = lambda *shape: (torch.randn(*shape, device=device) * 0.02).requires_grad_()
        self.clients, self.kind = clients, kind
        self.head, self.bias = draw(clients, CLASSES, DIM), torch.zeros(clients, CLASSES, device=device, requires_grad=True)
        self.prompts = [draw(clients, PROMPT, DIM) for _ in range(PROMPTED if kind == "hgp" else 0)]
        pair = lambda: (draw(clients, RANK, DIM), torch.zeros(clients, DIM, RANK, device=device, requires_grad=True))
        self.pairs = [(pair(), pair()) for _ in range(DEPTH if kind == "lora" else 0)]

    def trained(self):
        factors = [factor for block in self.pairs for pair in block for factor in pair]
        return [self.head, self.bias, *self.prompts, *factors]


def lora(x, pair, clients):
    """B A x of every client on its own rows."""
    a, b = (factor.to(x.dtype) for factor in pair)
    rows = x.reshape(clients, -1, DIM)
    return torch.bmm(torch.bmm(rows, a.transpose(1, 2)), b.transpose(1, 2)).view_as(x)


def forward(frozen, pack, images):
    dtype, batch = frozen.patch.dtype, images.shape[0]
    x = images.to(dtype).reshape(batch, 3, IMAGE // PATCH, PATCH, IMAGE // PATCH, PATCH)
    x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, TOKENS - 1, -1)
    x = F.linear(x, frozen.patch, frozen.patch_bias)
    x = torch.cat([frozen.token.expand(batch, -1, -1), x], 1) + frozen.position
    heads = lambda t: t.unflatten(2, (HEADS, DIM // HEADS)).transpose(1, 2)
    for i, block in enumerate(frozen.blocks):
        y = F.layer_norm(x, (DIM,), *block["norm1"], 1e-6)
        q, k, v = F.linear(y, *block["qkv"]).chunk(3, 2)
        if pack.pairs:
            q, v = q + lora(y, pack.pairs[i][0], pack.clients), v + lora(y, pack.pairs[i][1], pack.clients)
        if i < len(pack.prompts):
            prompt = pack.prompts[i].to(dtype).repeat_interleave(batch // pack.clients, 0)
            k, v = torch.cat([prompt[:, : PROMPT // 2], k], 1), torch.cat([prompt[:, PROMPT // 2 :], v], 1)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v)).transpose(1, 2).flatten(2)
        x = x + F.linear(y, *block["proj"])
        y = F.layer_norm(x, (DIM,), *block["norm2"], 1e-6)
        x = x + F.linear(F.gelu(F.linear(y, *block["fc1"])), *block["fc2"])
    features = F.layer_norm(x[:, 0], (DIM,), *frozen.norm, 1e-6).float().reshape(pack.clients, -1, DIM)
    return torch.baddbmm(pack.bias.unsqueeze(1), features, pack.head.transpose(1, 2))


def images_per_second(kind, clients, dtype, device, compiled):
    frozen, pack = Frozen(device, dtype), Pack(kind, clients, device)
    optimizer = torch.optim.AdamW(pack.trained(), lr=3e-3)
    images = torch.randn(clients * BATCH, 3, IMAGE, IMAGE)
    labels = torch.randint(0, CLASSES, (clients * BATCH,), device=device)
    run = torch.compile(forward) if compiled else forward
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def step():
        scores = run(frozen, pack, images.to(device))
        # A client's gradient is that of its own mean.
        loss = F.cross_entropy(scores.flatten(0, 1), labels, reduction="none").view(clients, -1).mean(1).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def turn(steps):
        wait()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        return steps * len(images) / (time.perf_counter() - start)

    turn(2)
    return max(turn(5) for _ in range(3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--packs", type=int, nargs="+", default=[1, 8, 16, 32])
    parser.add_argument("--types", nargs="+", default=["bf16", "f32"])
    parser.add_argument("--kinds", nargs="+", default=["hgp", "lora"])
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    for kind in asked.kinds:
        for name in asked.types:
            dtype = dict(bf16=torch.bfloat16, f32=torch.float32)[name]
            for clients in asked.packs:
                rate = images_per_second(kind, clients, dtype, device, asked.compile)
                print(f"{kind:4} {name} pack {clients:3} {rate:9.0f} images/s  {1e3 * clients * BATCH / rate:8.1f} ms per step", flush=True)


if __name__ == "__main__":
    main()
