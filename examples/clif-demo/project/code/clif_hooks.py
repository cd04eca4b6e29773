"""Hooks `train` and `evaluate` on a site's CLIF tables as they are: parquet files, read with polars.

The tables in `data_dir` become a cohort (code/clif.py) in a private temporary folder, and the
template's logistic regression (code/train.py) does the rest.
"""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import clif
import polars as pl
import train as regression


@contextmanager
def cohort_of(data_dir, config):
    """A folder with cohort.csv, made from the tables in `data_dir` and gone afterwards.

    With so few patients half of them are held out, `[config] held_out_half`: 0 or 1.
    """
    half = int((config or {}).get("held_out_half", 0))
    cohort = clif.add_features(clif.find_stays(data_dir), data_dir)
    held_out = pl.col("split") // 50 == half
    cohort = cohort.with_columns(pl.when(held_out).then(0).otherwise(99).alias("split"))
    with tempfile.TemporaryDirectory() as folder:
        cohort.write_csv(Path(folder) / "cohort.csv", null_value="nan")
        yield folder


def train(global_path, out_path, data_dir, config=None, state_dir=None):
    """As `train` in code/train.py."""
    with cohort_of(data_dir, config) as folder:
        return regression.train(global_path, out_path, folder, config=config, state_dir=state_dir)


def evaluate(global_path, data_dir, config=None):
    """As `evaluate` in code/train.py."""
    with cohort_of(data_dir, config) as folder:
        return regression.evaluate(global_path, folder)
