"""Hooks `train` and `evaluate`: gradient boosted trees that the sites grow together.

Trees cannot be averaged like weights, but scores add up. Two ways, `[config] mode`:

    rounds    in each pass every site grows a few trees on what the global model still gets wrong
              (its score is the starting margin), and the lead appends them all, the trees of
              site i at weight n_i / N
    ensemble  every site grows a whole model alone, once; the lead adds them up at weight n_i / N,
              and the run ends after pass 1

`[config] booster` chooses LightGBM or XGBoost. The model file is described in container.py.
"""

import importlib
import json
from pathlib import Path

import container
import numpy as np
from table import auroc, read_cohort, schema_hash

DEFAULTS = {
    "booster": "lightgbm",
    "mode": "rounds",
    "trees_per_pass": 10,
    "ensemble_trees": 80,
    "learning_rate": 0.1,
    "leaves": 7,
    "min_rows_in_leaf": 30,
}
BOOSTERS = {"lightgbm": "lightgbm_trees", "xgboost": "xgboost_trees"}
MODES = ("rounds", "ensemble")


def train(global_path, out_path, data_dir, config=None, state_dir=None):
    """Grows this site's next trees; in pass 0, at the lead, makes the empty model they are added to.

    Args:
        global_path: the newest global model, or None in pass 0.
        out_path: where the model must be written: this site's new trees alone.
        data_dir: this site's data folder.
        config: the `[config]` table of stitch.toml.
        state_dir: a private folder that never leaves the site; keeps the local-only baseline.

    Returns:
        n_samples (training rows, the weight of the trees) and finite metrics.
    """
    settings = read_settings(config)
    cohort = read_cohort(data_dir)
    x, y = cohort.part(held_out=False)
    if global_path is None:
        if len(y) == 0:
            raise ValueError("the lead has no training rows, so there is no first model")
        rate = float(np.clip(y.mean(), 1e-6, 1 - 1e-6))
        model = container.empty(settings["booster"], schema_hash(), bias=float(np.log(rate / (1 - rate))))
        container.write(model, out_path)
        return {"n_samples": len(y), "loss": loss(np.full(len(y), model["bias"]), y)}

    base = container.read(global_path, schema=schema_hash())
    if base["booster"] != settings["booster"]:
        raise ValueError(f"the global model is of {base['booster']}, stitch.toml says {settings['booster']}")
    if len(y) == 0:  # a site without a single row adds no trees
        container.write({**base, "members": [container.member("")]}, out_path)
        return {"n_samples": 0}
    booster = library(settings["booster"])
    held_x, held_y = cohort.part(held_out=True)
    margin, held_margin = score(base, x), score(base, held_x)
    trees = booster.grow(x, y, margin, settings, number=trees_to_grow(settings))
    container.write({**base, "members": [container.member(trees)]}, out_path)
    return {
        "n_samples": len(y),
        "auroc": auroc(held_y, held_margin + booster.margin(trees, held_x)),
        "base_auroc": auroc(held_y, held_margin),
        "local_auroc": local_baseline(cohort, base["bias"], settings, state_dir),
        "loss": loss(margin + booster.margin(trees, x), y),
    }


def evaluate(global_path, data_dir):
    """Scores a global model on the held-out rows: n_samples (held-out rows), auroc, loss."""
    model = container.read(global_path, schema=schema_hash())
    x, y = read_cohort(data_dir).part(held_out=True)
    margin = score(model, x)
    return {"n_samples": len(y), "auroc": auroc(y, margin), "loss": loss(margin, y)}


def read_settings(config):
    settings = DEFAULTS | dict(config or {})
    if settings["booster"] not in BOOSTERS or settings["mode"] not in MODES:
        raise ValueError(f"[config]: booster is one of {sorted(BOOSTERS)}, mode one of {sorted(MODES)}")
    if int(settings["min_rows_in_leaf"]) < 10:
        raise ValueError("[config] min_rows_in_leaf below 10: a leaf's value would describe too few patients")
    return settings


def library(name):
    """The module that grows and reads trees; only the chosen one is imported."""
    return importlib.import_module(BOOSTERS[name])


def trees_to_grow(settings):
    return int(settings["trees_per_pass" if settings["mode"] == "rounds" else "ensemble_trees"])


def score(model, x):
    """The log odds, shape (rows,): the bias and every member's trees, in the order of the file."""
    total = np.full(len(x), float(model["bias"]))
    booster = library(model["booster"])
    for member in model["members"]:
        total += float(member["weight"]) * booster.margin(member["trees"], x)
    return total


def loss(margin, y):
    """Mean log loss in nats."""
    return float(np.mean(np.logaddexp(0.0, margin) - y * margin))


def local_baseline(cohort, bias, settings, state_dir):
    """Held-out AUROC of the trees this site would have had alone; grown once, then remembered."""
    memory = Path(state_dir) / "local_baseline.json" if state_dir else None
    if memory is not None and memory.exists():
        return json.loads(memory.read_text(encoding="utf-8"))["local_auroc"]
    x, y = cohort.part(held_out=False)
    held_x, held_y = cohort.part(held_out=True)
    booster = library(settings["booster"])
    trees = booster.grow(x, y, np.full(len(y), bias), settings, number=int(settings["ensemble_trees"]))
    result = auroc(held_y, booster.margin(trees, held_x))
    if memory is not None:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps({"local_auroc": result}), encoding="utf-8")
    return result
