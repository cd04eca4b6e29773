"""Growing and reading trees with XGBoost; the trees travel as its JSON format."""

import json

import numpy as np
import xgboost


def grow(x, y, margin, settings, *, number):
    """`number` trees on top of `margin` (log odds, one a row), as a JSON object.

    One thread and no sampling: the same rows give the same trees.
    """
    parameters = {
        "objective": "binary:logistic",
        "base_score": 0.5,  # log odds of 0: the margin says it all
        "learning_rate": float(settings["learning_rate"]),
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": int(settings["leaves"]),
        # XGBoost counts a row as p * (1 - p), at most a quarter, so this many rows are sure.
        "min_child_weight": int(settings["min_rows_in_leaf"]) / 4.0,
        "reg_lambda": 1.0,
        "nthread": 1,
        "seed": 0,
        "verbosity": 0,
    }
    rows = xgboost.DMatrix(x, label=y, base_margin=margin, nthread=1)
    trees = xgboost.train(parameters, rows, num_boost_round=number)
    return json.loads(bytes(trees.save_raw(raw_format="json")))


def margin(trees, x):
    """The sum of the trees' leaf values, shape (rows,), in log odds."""
    booster = xgboost.Booster(params={"nthread": 1})
    booster.load_model(bytearray(json.dumps(trees).encode("utf-8")))
    scores = booster.predict(xgboost.DMatrix(x, nthread=1), output_margin=True)
    return np.asarray(scores, dtype=np.float64)
