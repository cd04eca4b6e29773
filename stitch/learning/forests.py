"""Boosted trees as files: LightGBM's text and XGBoost's JSON, read as lists of trees without either library.

Formats: LightGBM's `Booster.save_model` (https://lightgbm.readthedocs.io), XGBoost's JSON schema
(https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from stitch.errors import BadModel

_MOST_TREES = 100_000
_DAMAGED = "Save it with the library's own save_model, as text or JSON."
_SCALED = {"leaf_value": ".17g", "internal_value": "g", "shrinkage": "g"}  # in the digits LightGBM writes
_OWN_LINES = (
    "feature_infos=",
    "tree_sizes=",
)  # of the header: ranges of a site's features, sizes of its trees


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree.

    Attributes:
        text: its nodes, as the format writes them, without its number.
        group: which output it adds to.
    """

    text: str
    group: int = 0


@dataclass(frozen=True, slots=True)
class Forest:
    """A booster as a list of trees in a frame.

    Attributes:
        kind: "lightgbm" or "xgboost".
        frame: what must be equal in all models that are put together: objective, features, start.
        head: what the file holds before the trees; of XGBoost all but the trees, as JSON.
        tail: what it holds after them.
        per_iteration: trees that one iteration of boosting adds.
        trees: all of them, in order.
    """

    kind: str
    frame: str
    head: str
    tail: str
    per_iteration: int
    trees: tuple[Tree, ...]


def read_forest(path: Path) -> Forest:
    """Read a booster's file; its content says which library wrote it.

    Raises:
        BadModel: it is none of the two formats, or a kind of trees that cannot be scaled.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadModel(
            "the model is no text", hint="Save it as text (LightGBM) or .json (XGBoost)."
        ) from error
    try:
        return _read_xgboost(text) if text.lstrip().startswith("{") else _read_lightgbm(text)
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise BadModel("the model is no booster that can be read", hint=_DAMAGED) from error


def write_forest(forest: Forest, path: Path) -> None:
    """Write a booster's file: the same bytes for the same trees."""
    text = _xgboost_text(forest) if forest.kind == "xgboost" else _lightgbm_text(forest)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(text)


def scaled(forest: Forest, trees: Sequence[Tree], *, by: float) -> list[Tree]:
    """The trees with every leaf's value multiplied: they add `by` times as much to a score.

    Raises:
        BadModel: a leaf's value is not finite.
    """
    scale = _scaled_xgboost if forest.kind == "xgboost" else _scaled_lightgbm
    return [Tree(scale(tree.text, by), tree.group) for tree in trees]


def unfit_booster(path: Path, base_path: Path) -> str:
    """Why a site's booster has no part in a round; "" if it has.

    Args:
        path: of the site's model.
        base_path: of the global that it was trained from.

    Raises:
        BadModel: the global is not readable.
    """
    base = read_forest(base_path)
    try:
        own = read_forest(path)
        if own.kind != base.kind:
            return f"it is of {own.kind}, the global of {base.kind}"
        if own.frame != base.frame:
            return "its objective, features or start are not the global's"
        if own.trees[: len(base.trees)] != base.trees:
            return "it does not go on from the trees of the global"
        new = own.trees[len(base.trees) :]
        if len(new) % (own.per_iteration or 1):
            return "its last iteration is not whole"
        scaled(own, new, by=1.0)  # reads every leaf
    except BadModel as error:
        return f"its model file cannot be used: {error}"
    return ""


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise BadModel("a leaf's value is not finite", hint="Leave this site out of the round.")
    return value


# -- LightGBM ------------------------------------------------------------------------------------------


def _read_lightgbm(text: str) -> Forest:
    head, first, rest = text.partition("\nTree=")
    body, ended, tail = (first + rest).partition("\nend of trees\n")
    lines = head.split("\n")
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    if lines[0] != "tree" or not ended or facts.get("tree_sizes") is None:
        raise ValueError("no LightGBM text")
    blocks = body.split("\nTree=")[1:]
    if len(blocks) > _MOST_TREES or any("is_linear=1" in block for block in blocks):
        raise BadModel("linear trees, or too many of them, cannot be bagged", hint="Use constant leaves.")
    frame = "\n".join(line for line in lines if not line.startswith(_OWN_LINES)).strip()
    # Without the importances, which count the splits of one model, and with its parameters.
    parameters = tail[tail.index("\nparameters:") :] if "\nparameters:" in tail else "\n"
    per = int(facts["num_tree_per_iteration"])
    trees = tuple(
        Tree(block.partition("\n")[2].strip("\n"), place % per) for place, block in enumerate(blocks)
    )
    kept = "\n".join(line for line in lines if not line.startswith("tree_sizes=")).rstrip("\n")
    return Forest("lightgbm", frame, kept, parameters, per, trees)


def _lightgbm_text(forest: Forest) -> str:
    blocks = [f"Tree={place}\n{tree.text}\n\n\n" for place, tree in enumerate(forest.trees)]
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return f"{forest.head}\ntree_sizes={sizes}\n\n{''.join(blocks)}end of trees\n{forest.tail}"


def _scaled_lightgbm(text: str, by: float) -> str:
    lines = []
    for line in text.split("\n"):
        name, equals, values = line.partition("=")
        if equals and name in _SCALED:
            numbers = (format(_finite(float(value)) * by, _SCALED[name]) for value in values.split())
            lines.append(f"{name}={' '.join(numbers)}")
        else:
            lines.append(line)
    return "\n".join(lines)


# -- XGBoost -------------------------------------------------------------------------------------------


def _read_xgboost(text: str) -> Forest:
    model: dict[str, Any] = json.loads(text)
    learner = model["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise BadModel(
            f"a booster of the kind {ascii(booster['name'])[:20]} cannot be bagged", hint="Use gbtree."
        )
    inner = booster["model"]
    starts = [int(one) for one in inner["iteration_indptr"]]
    steps = {after - before for before, after in pairwise(starts)}
    if len(inner["trees"]) > _MOST_TREES or len(steps) > 1 or starts[-1] != len(inner["trees"]):
        raise ValueError("iterations of different sizes")
    groups = inner["tree_info"]
    trees = []
    for tree, group in zip(inner["trees"], groups, strict=True):
        if tree["tree_param"]["size_leaf_vector"] not in ("0", "1"):
            raise BadModel("trees with vectors as leaves cannot be bagged", hint="Use one output a tree.")
        trees.append(Tree(_dumped({name: tree[name] for name in tree if name != "id"}), int(group)))
    inner |= {"trees": [], "tree_info": [], "iteration_indptr": []}
    inner["gbtree_model_param"]["num_trees"] = "0"
    frame = {
        name: learner[name] for name in ("learner_model_param", "objective", "feature_names", "feature_types")
    }
    return Forest("xgboost", _dumped(frame), _dumped(model), "", steps.pop() if steps else 0, tuple(trees))


def _xgboost_text(forest: Forest) -> str:
    model = json.loads(forest.head)
    inner = model["learner"]["gradient_booster"]["model"]
    inner["trees"] = [{**json.loads(tree.text), "id": place} for place, tree in enumerate(forest.trees)]
    inner["tree_info"] = [tree.group for tree in forest.trees]
    inner["iteration_indptr"] = list(range(0, len(forest.trees) + 1, forest.per_iteration or 1))
    inner["gbtree_model_param"]["num_trees"] = str(len(forest.trees))
    return _dumped(model)


def _scaled_xgboost(text: str, by: float) -> str:
    tree: dict[str, Any] = json.loads(text)
    leaf = [child == -1 for child in tree["left_children"]]
    tree["split_conditions"] = [
        _single(value, by) if is_leaf else value
        for value, is_leaf in zip(tree["split_conditions"], leaf, strict=True)
    ]
    tree["base_weights"] = [_single(value, by) for value in tree["base_weights"]]
    return _dumped(tree)


def _single(value: float, by: float) -> float:
    """The product in float32, which is what XGBoost keeps, in its shortest digits."""
    return float(str(np.float32(_finite(float(value)) * by)))


def _dumped(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
