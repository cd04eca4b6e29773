"""What `[compression]` saves, and what it costs: bytes of a pass and held-out AUROC, over real files.

    uv run python benchmarks/compression.py

Three sites with made-up patients of their own (10 features, a rule with interactions) train a network with
one hidden layer of 256 in full batches and average it, uncompressed and compressed as sites and lead do it.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitch.learning.tensors import read_model, write_model
from stitch.privacy.compress import compress, expand

Array = NDArray[Any]
Data = tuple[Array, Array]
Model = dict[str, Array]
How = dict[str, Any] | None

FEATURES, HIDDEN, SEED = 10, 256, 20260131
KINDS: dict[str, How] = {
    "none": None,
    "int8": {"kind": "int8", "keep": 1.0},
    "top_k, keep 0.1": {"kind": "top_k", "keep": 0.1},
    "top_k, keep 0.01": {"kind": "top_k", "keep": 0.01},
}


def patients(rng: np.random.Generator, rows: int, shift: float) -> Data:
    x = rng.normal(size=(rows, FEATURES)) + shift
    score = x[:, 0] * x[:, 1] + 0.8 * x[:, 2] - np.abs(x[:, 3]) + 0.5 * np.sin(2 * x[:, 4])
    return x.astype(np.float32), (score + rng.normal(size=rows) > 0).astype(np.float32)


def forward(model: Model, x: Array) -> tuple[Array, Array]:
    hidden = np.tanh(x @ model["w1"] + model["b1"])
    return hidden, hidden @ model["w2"] + model["b2"]


def train(model: Model, data: Data, steps: int, rate: float = 0.6) -> Model:
    x, y = data
    model = dict(model)
    for _ in range(steps):
        hidden, score = forward(model, x)
        error = ((1 / (1 + np.exp(-np.clip(score, -30, 30)))) - y[:, None]) / len(y)
        back = (error @ model["w2"].T) * (1 - hidden**2)
        steps_of = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
        model = {name: (model[name] - rate * steps_of[name]).astype(np.float32) for name in model}
    return model


def auroc(y: Array, score: Array) -> float:
    order = np.argsort(np.argsort(score)) + 1.0
    positives = y.sum()
    above = order[y == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(y) - positives)))


def run(folder: Path, how: How, sites: list[Data], held: Data, args: argparse.Namespace) -> tuple[int, float]:
    rng = np.random.default_rng(SEED)
    model = {
        "w1": rng.normal(size=(FEATURES, HIDDEN)).astype(np.float32) / np.float32(FEATURES**0.5),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": rng.normal(size=(HIDDEN, 1)).astype(np.float32) / np.float32(HIDDEN**0.5),
        "b2": np.zeros(1, np.float32),
    }
    size = 0
    for _ in range(args.passes):
        write_model(folder / "global.npz", model)
        arrived = []
        for index, data in enumerate(sites):
            write_model(folder / "model.npz", train(model, data, args.steps))
            sent, state = folder / "model.npz", folder / f"state-{index}"
            state.mkdir(exist_ok=True)
            if how is not None:
                paths = {"global_path": folder / "global.npz"}
                sent = folder / "sent.npz"
                compress(
                    model_path=folder / "model.npz", out_path=sent, state_dir=state, compression=how, **paths
                )
                expand(model_path=sent, out_path=folder / "back.npz", **paths)
            size = sent.stat().st_size
            arrived.append(read_model(folder / ("back.npz" if how else "model.npz")))
        model = {name: np.mean([one[name] for one in arrived], axis=0, dtype=np.float32) for name in model}
    return size, auroc(held[1], forward(model, held[0])[1][:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Bytes and accuracy of compressed passes.")
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    rng = np.random.default_rng(SEED)
    sites = [patients(rng, rows, shift) for rows, shift in ((2000, 0.0), (1000, 0.2), (400, -0.2))]
    held = patients(rng, 3000, 0.0)
    print(f"{args.passes} passes of {args.steps} steps, seed {SEED}")
    print("| compression | bytes of a pass | held-out AUROC |\n|---|---|---|")
    for name, how in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            size, score = run(Path(folder), how, sites, held, args)
        print(f"| {name} | {size} | {score:.3f} |", flush=True)


if __name__ == "__main__":
    main()
