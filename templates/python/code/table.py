"""The cohort as arrays: what train and evaluate share. Not a hook itself.

The cohort is one CSV file: `split` (0 to 99, the same admission always the same number), the
features in the order of shared/feature_schema.json, and the label. It holds no identifier.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "shared" / "feature_schema.json"
BUILT = ROOT / "output" / "intermediate_phi" / "cohort.csv"
HELD_OUT_BELOW = 25  # split < 25: a quarter of the admissions is never trained on


@dataclass(frozen=True)
class Cohort:
    """Features (rows, n_features) with NaN where missing, labels (rows,), held-out rows (rows,)."""

    x: np.ndarray
    y: np.ndarray
    held_out: np.ndarray

    def part(self, *, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of the training rows, or of the held-out rows."""
        rows = self.held_out if held_out else ~self.held_out
        return self.x[rows], self.y[rows]


def feature_names() -> list[str]:
    """The features, in the one order that every site uses."""
    return [feature["name"] for feature in json.loads(SCHEMA.read_text(encoding="utf-8"))["features"]]


def schema_hash() -> str:
    """A fingerprint of names and order, carried inside the model: mixed-up columns are refused."""
    return hashlib.sha256("\n".join(feature_names()).encode("utf-8")).hexdigest()[:16]


def read_cohort(data_dir: str) -> Cohort:
    """Reads what code/01_features.py built, or else `data_dir`/cohort.csv (the demo's data).

    To read a parquet file of the same columns instead:
        table = polars.read_parquet(path).select(columns).to_numpy().astype(float)
    """
    path = BUILT if BUILT.exists() else Path(data_dir) / "cohort.csv"
    if not path.exists():
        raise FileNotFoundError("no cohort.csv: run code/00_cohort.py and code/01_features.py first")
    with open(path, encoding="utf-8-sig") as lines:
        columns = next(lines).strip().split(",")
    if columns[1:-1] != feature_names():
        raise ValueError("cohort.csv has other columns, or another order, than shared/feature_schema.json")
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2, encoding="utf-8-sig")
    return Cohort(x=table[:, 1:-1], y=table[:, -1], held_out=table[:, 0] < HELD_OUT_BELOW)


def auroc(y: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve (ties count half); 0.5 where only one class is present."""
    positives = int(y.sum())
    negatives = len(y) - positives
    if positives == 0 or negatives == 0:
        return 0.5
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(counts) - (counts - 1) / 2.0
    rank_sum = float(middle_rank[inverse][y == 1].sum())
    return (rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives)
