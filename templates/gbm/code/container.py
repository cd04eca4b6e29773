"""The model file of this project: model.json, plain text that no library executes.

    format    "stitch-gbm/1"
    booster   "lightgbm" or "xgboost"
    schema    fingerprint of the feature names and their order
    bias      the log odds that everyone starts from (the lead's event rate, pass 0)
    members   a list of {"weight": number, "trees": what the booster saves as text or JSON}

    score(x) = bias + sum over members of weight * (sum of the trees' leaf values for x)

A site's pass holds one member, its new trees at weight 1; a global model holds them all.
"""

import json
import math

FORMAT = "stitch-gbm/1"
KEYS = {"format", "booster", "schema", "bias", "members"}


def empty(booster, schema, *, bias):
    return {"format": FORMAT, "booster": booster, "schema": schema, "bias": bias, "members": []}


def member(trees, weight=1.0):
    return {"weight": weight, "trees": trees}


def read(path, *, schema=None):
    """Reads and checks a model; `schema` is the fingerprint of this site's own features."""
    with open(path, encoding="utf-8") as text:
        model = json.load(text)
    if not isinstance(model, dict) or model.get("format") != FORMAT or set(model) != KEYS:
        raise ValueError(f"not a model file of the format {FORMAT}")
    if schema is not None and model["schema"] != schema:
        raise ValueError("the model was trained on other features than shared/feature_schema.json names")
    numbers = [model["bias"], *(each["weight"] for each in model["members"])]
    if not all(isinstance(number, float) and math.isfinite(number) for number in numbers):
        raise ValueError("the model holds a weight that is not a finite number")
    return model


def write(model, path):
    """Writes the same bytes for the same model on every machine."""
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        json.dump(model, out, sort_keys=True, separators=(",", ":"), allow_nan=False)
