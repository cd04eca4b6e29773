"""Growing and reading trees with LightGBM; the trees travel as its text format."""

import re

import lightgbm
import numpy as np


def grow(x, y, margin, settings, *, number):
    """`number` trees on top of `margin` (log odds, one a row), as text.

    One thread and no sampling: the same rows give the same trees.
    """
    parameters = {
        "objective": "binary",
        "learning_rate": float(settings["learning_rate"]),
        "num_leaves": int(settings["leaves"]),
        "min_data_in_leaf": int(settings["min_rows_in_leaf"]),
        "lambda_l2": 1.0,
        "boost_from_average": False,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": 0,
        "verbosity": -1,
    }
    rows = lightgbm.Dataset(x, label=y, init_score=margin, params={"verbosity": -1, "num_threads": 1})
    trees = lightgbm.train(parameters, rows, num_boost_round=number)
    return without_ranges(trees.model_to_string())


def without_ranges(text):
    """The text without `feature_infos`: each feature's smallest and largest value at this site.

    An extreme value is a single patient's. Scoring does not use them, but reading wants one a feature.
    """
    return re.sub(
        r"(?m)^feature_infos=(.*)$",
        lambda line: "feature_infos=" + " ".join("none" for _ in line[1].split(" ")),
        text,
    )


def margin(trees, x):
    """The sum of the trees' leaf values, shape (rows,), in log odds."""
    booster = lightgbm.Booster(model_str=trees)
    return np.asarray(booster.predict(x, raw_score=True, num_threads=1), dtype=np.float64)
