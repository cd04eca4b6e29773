"""Makes one fake hospital's cohort, so that the project can be tried without patient data.

    python demo/make_synthetic.py --site rush --index 0 --of 3 --out data/rush

Writes OUT/cohort.csv: a column `split` (0 to 99, see code/), the features of
shared/feature_schema.json and the label. The same arguments always give the same bytes. The
hospitals differ as real ones do: size (6000, 2500, 900 and shrinking), event rate (7 to 19 %),
shifted and rescaled measurements, slightly different effects; 10 % of all values are missing.
"""

import argparse
import json
from pathlib import Path

import numpy as np

SCHEMA = Path(__file__).resolve().parent.parent / "shared" / "feature_schema.json"
SIZES = (6000, 2500, 900)
EVENT_RATES = (0.09, 0.19, 0.12)
MISSING = 0.10
FACTORS = 6


def site_size(index: int) -> int:
    """Rows of hospital number `index`: each one after the third has 70 % of the one before."""
    if index < len(SIZES):
        return SIZES[index]
    return max(200, int(SIZES[-1] * 0.7 ** (index - len(SIZES) + 1)))


def standard_scores(
    rng: np.random.Generator, truth: np.random.Generator, rows: int, width: int
) -> np.ndarray:
    """Correlated scores, shape (rows, width), mean 0 and variance 1: organ systems fail together."""
    loadings = truth.normal(size=(FACTORS, width)) * 0.45 / np.sqrt(FACTORS / 2)
    shared = rng.normal(size=(rows, FACTORS)) @ loadings
    own = rng.normal(size=(rows, width)) * np.sqrt(np.clip(1.0 - (loadings**2).sum(axis=0), 0.2, None))
    return shared + own


def risk(truth: np.random.Generator, rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """The log odds of death up to a constant, shape (rows,): lines, a few curves, a few pairs."""
    width = scores.shape[1]
    effects = truth.normal(size=width) * (truth.random(width) < 0.6) * 0.26
    curved = truth.choice(width, size=6, replace=False)
    pairs = truth.choice(width, size=(5, 2), replace=False)
    line = scores @ (effects + rng.normal(size=width) * 0.05)
    curves = 0.08 * (scores[:, curved] ** 2 - 1.0).sum(axis=1)
    return line + curves + 0.14 * (scores[:, pairs[:, 0]] * scores[:, pairs[:, 1]]).sum(axis=1)


def intercept(log_odds: np.ndarray, rate: float) -> float:
    """The constant that gives the wanted event rate, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        too_many = np.mean(1.0 / (1.0 + np.exp(-(log_odds + middle)))) > rate
        low, high = (low, middle) if too_many else (middle, high)
    return low


def measurements(rng: np.random.Generator, scores: np.ndarray, features: list[dict]) -> np.ndarray:
    """The scores in each feature's unit and range, as this hospital's devices would report them."""
    width = len(features)
    shift, stretch = rng.normal(size=width) * 0.3, np.exp(rng.normal(size=width) * 0.1)
    low = np.array([feature["low"] for feature in features], dtype=float)
    high = np.array([feature["high"] for feature in features], dtype=float)
    values = np.clip(low + (high - low) * (0.42 + 0.15 * (scores * stretch + shift)), low, high)
    for column, feature in enumerate(features):
        if feature["unit"] == "0/1":
            values[:, column] = scores[:, column] + shift[column] > 0.3
    for stem in {feature["category"] for feature in features if feature["stat"] in ("min", "mean", "max")}:
        together = [i for i, feature in enumerate(features) if feature["category"] == stem]
        values[:, together] = np.sort(values[:, together], axis=1)  # min <= mean <= max
    return values


def make_cohort(index: int, *, seed: int) -> tuple[list[str], np.ndarray]:
    """Column names and the table, shape (rows, 2 + features), of hospital number `index`."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    features = schema["features"]
    truth = np.random.default_rng(seed)
    rng = np.random.default_rng([seed, index])
    rows = site_size(index)
    scores = standard_scores(rng, truth, rows, len(features))
    log_odds = risk(truth, rng, scores)
    log_odds += intercept(log_odds, EVENT_RATES[index % len(EVENT_RATES)])
    died = rng.random(rows) < 1.0 / (1.0 + np.exp(-log_odds))
    values = measurements(rng, scores, features)
    values[rng.random(values.shape) < MISSING] = np.nan
    split = rng.permutation(rows) % 100
    names = ["split", *(feature["name"] for feature in features), schema["label"]]
    return names, np.column_stack([split, values, died])


def main() -> None:
    parser = argparse.ArgumentParser(description="Make one fake hospital's cohort.")
    parser.add_argument("--site", required=True, help="site id, for the message only")
    parser.add_argument("--out", required=True, type=Path, help="folder for cohort.csv")
    parser.add_argument("--index", type=int, default=0, help="number of this hospital, from 0")
    parser.add_argument("--of", type=int, default=3, help="how many hospitals there are")
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    if not 0 <= args.index < args.of:
        parser.error(f"--index must be between 0 and {args.of - 1}")
    names, table = make_cohort(args.index, seed=args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "cohort.csv", "w", encoding="utf-8", newline="\n") as out:
        np.savetxt(out, table, fmt="%.5g", delimiter=",", header=",".join(names), comments="")
    print(f"{args.site}: {len(table)} admissions, {int(table[:, -1].sum())} deaths, in {args.out}")


if __name__ == "__main__":
    main()
