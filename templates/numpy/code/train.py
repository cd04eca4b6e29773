"""Hooks `train` and `evaluate`: logistic regression in NumPy, trained by federated averaging.

Model file: model.npz, read with allow_pickle=False, so it cannot execute code. Arrays:
    schema   text, the fingerprint of the feature names and their order
    median   (n_features,)  fills missing values      } from the lead's cohort in pass 0 and the
    center   (n_features,)  subtracted                } same for every site ever after: columns
    scale    (n_features,)  divided by                } mean the same thing everywhere
    weights  (n_features,), bias ()

Nothing is drawn at random and every sum is elementwise or einsum (no multi-threaded BLAS), so
training again from the same global gives the same bytes on the same machine.
"""

import json
from pathlib import Path

import numpy as np
from table import SCHEMA, auroc, read_cohort, schema_hash

DEFAULTS = {"local_steps": 10, "learning_rate": 0.12, "l2": 0.002, "baseline_steps": 400}


def train(global_path, out_path, data_dir, config=None, state_dir=None):
    """Trains from the global model at `global_path`; without one (pass 0, the lead) makes the first.

    Args:
        global_path: the newest global model, or None in pass 0.
        out_path: where the model must be written.
        data_dir: this site's data folder.
        config: the `[config]` table of stitch.toml.
        state_dir: a private folder that never leaves the site; keeps the local-only baseline.

    Returns:
        n_samples (training rows, the weight in the average) and finite metrics.
    """
    settings = DEFAULTS | dict(config or {})
    if global_path is None and not any(Path(data_dir).iterdir()):
        save(model_of_ranges(), out_path)  # [privacy] data_free_start: the first model may show no data
        return {"n_samples": 0}
    cohort = read_cohort(data_dir)
    x, y = cohort.part(held_out=False)
    held_x, held_y = cohort.part(held_out=True)
    if len(y) == 0:
        return nothing_learned(global_path, out_path)
    if global_path is None:
        model = first_model(x, y)
        save(model, out_path)
        return {"n_samples": len(y), "loss": loss(model, prepare(model, x), y)}

    base = load(global_path)
    held_z = prepare(base, held_x)
    model = fit(base, prepare(base, x), y, settings, steps=int(settings["local_steps"]))
    save(model, out_path)
    return {
        "n_samples": len(y),
        "auroc": auroc(held_y, log_odds(model, held_z)),
        "base_auroc": auroc(held_y, log_odds(base, held_z)),
        "local_auroc": local_baseline(cohort, settings, state_dir),
        "loss": loss(model, prepare(base, x), y),
    }


def evaluate(global_path, data_dir):
    """Scores a global model on the held-out rows: n_samples (held-out rows), auroc, loss."""
    model = load(global_path)
    x, y = read_cohort(data_dir).part(held_out=True)
    z = prepare(model, x)
    return {"n_samples": len(y), "auroc": auroc(y, log_odds(model, z)), "loss": loss(model, z, y)}


def nothing_learned(global_path, out_path):
    """A site without a single row hands the global model back, at weight 0."""
    if global_path is None:
        raise ValueError("the lead has no training rows, so there is no first model")
    save(load(global_path), out_path)
    return {"n_samples": 0}


def first_model(x, y):
    """Shared preprocessing from the given rows, weights of zero, the bias at the event rate."""
    never = np.isnan(x).all(axis=0)  # a column that this site never measured counts as 0
    median = np.nanmedian(np.where(never, 0.0, x), axis=0)
    filled = np.where(np.isnan(x), median, x)
    scale = filled.std(axis=0)
    rate = float(np.clip(y.mean(), 1e-6, 1 - 1e-6))
    return {
        "schema": np.array(schema_hash()),
        "median": median,
        "center": filled.mean(axis=0),
        "scale": np.where(scale > 0, scale, 1.0),
        "weights": np.zeros(x.shape[1]),
        "bias": np.array(np.log(rate / (1 - rate))),
    }


def model_of_ranges():
    """A first model from the feature schema's ranges alone: no patient is in it."""
    features = json.loads(SCHEMA.read_text(encoding="utf-8"))["features"]
    low, high = (np.array([float(feature[end]) for feature in features]) for end in ("low", "high"))
    return {
        "schema": np.array(schema_hash()),
        "median": (low + high) / 2,
        "center": (low + high) / 2,
        "scale": (high - low) / 4,
        "weights": np.zeros(len(features)),
        "bias": np.array(0.0),
    }


def prepare(model, x):
    """Missing values filled, columns centred, scaled and cut at 5 deviations, shape as `x`."""
    filled = np.where(np.isnan(x), model["median"], x)
    return np.clip((filled - model["center"]) / model["scale"], -5.0, 5.0)


def log_odds(model, z):
    return np.einsum("ij,j->i", z, model["weights"]) + model["bias"]


def probability(score):
    return 1.0 / (1.0 + np.exp(-np.clip(score, -30.0, 30.0)))


def loss(model, z, y):
    """Mean log loss in nats."""
    p = np.clip(probability(log_odds(model, z)), 1e-12, 1 - 1e-12)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def fit(start, z, y, settings, *, steps):
    """Gradient steps with momentum on the whole cohort; returns a new model."""
    weights, bias = start["weights"].copy(), float(start["bias"])
    velocity, bias_velocity = np.zeros_like(weights), 0.0
    rate, l2 = float(settings["learning_rate"]), float(settings["l2"])
    for _ in range(steps):
        error = probability(np.einsum("ij,j->i", z, weights) + bias) - y
        velocity = 0.8 * velocity - rate * (np.einsum("ij,i->j", z, error) / len(y) + l2 * weights)
        bias_velocity = 0.8 * bias_velocity - rate * float(error.mean())
        weights, bias = weights + velocity, bias + bias_velocity
    return {**start, "weights": weights, "bias": np.array(bias)}


def local_baseline(cohort, settings, state_dir):
    """Held-out AUROC of a model this site would have had alone; trained once, then remembered."""
    memory = Path(state_dir) / "local_baseline.json" if state_dir else None
    if memory is not None and memory.exists():
        return json.loads(memory.read_text(encoding="utf-8"))["local_auroc"]
    x, y = cohort.part(held_out=False)
    held_x, held_y = cohort.part(held_out=True)
    start = first_model(x, y)
    model = fit(start, prepare(start, x), y, settings, steps=int(settings["baseline_steps"]))
    result = auroc(held_y, log_odds(model, prepare(start, held_x)))
    if memory is not None:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps({"local_auroc": result}), encoding="utf-8")
    return result


def load(path):
    """Reads a model and refuses one that was made for other columns."""
    with np.load(path, allow_pickle=False) as arrays:
        model = {name: arrays[name] for name in arrays.files}
    if str(model["schema"]) != schema_hash():
        raise ValueError("the model was trained on other features than shared/feature_schema.json names")
    return model


def save(model, path):
    with open(path, "wb") as out:
        np.savez(out, **model)
