"""Step 1: the features of each stay. Writes output/intermediate_phi/cohort.csv (stays here).

The hooks in train.py read that file. It holds no identifier, but it is patient data all the same.
"""

import clif
import polars as pl


def main():
    config = clif.site_config()
    stays = pl.read_parquet(clif.PHI / "stays.parquet")
    cohort = clif.add_features(stays, config["data_directory"], filetype=config["filetype"])
    cohort.write_csv(clif.PHI / "cohort.csv", null_value="nan")
    empty = [
        name
        for name, missing in zip(cohort.columns, cohort.null_count().row(0), strict=True)
        if missing == len(cohort)
    ]
    print(f"{len(cohort)} stays, {cohort.width - 2} features")
    if empty:
        print("never measured at this site (check the categories in your tables):", ", ".join(empty))


if __name__ == "__main__":
    main()
