"""This site's CLIF tables: who is in the cohort, and the features of each stay. Needs polars.

A stay is the first ICU stay of an adult's hospitalization. Features cover its first hours, as
shared/feature_schema.json says: each names a table, a category and a statistic.
"""

import json
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "shared" / "feature_schema.json").read_text(encoding="utf-8"))
PHI = ROOT / "output" / "intermediate_phi"

# Tables with one measurement a row: time, category, value (None: that there is a row is what counts).
LONG = {
    "vitals": ("recorded_dttm", "vital_category", "vital_value"),
    "labs": ("lab_result_dttm", "lab_category", "lab_value_numeric"),
    "patient_assessments": ("recorded_dttm", "assessment_category", "numerical_value"),
    "medication_admin_continuous": ("admin_dttm", "med_category", None),
}


def site_config():
    """config/config.json under the names of the CLIF template; other projects' names are understood."""
    text = (ROOT / "config" / "config.json").read_text(encoding="utf-8-sig")
    config = json.loads(text)
    return {
        "data_directory": config.get("data_directory") or config["tables_path"],
        "filetype": config.get("filetype") or config.get("file_type") or "parquet",
    }


def read_table(data_dir, name, columns, *, filetype="parquet"):
    """The columns of the table clif_`name`, a lazy frame: ids as text, times in UTC without a zone."""
    path = Path(data_dir) / f"clif_{name}.{filetype}"
    if not path.exists():
        raise FileNotFoundError(f"the table {path.name} is not in the data folder")
    frame = pl.scan_parquet(path) if filetype == "parquet" else pl.scan_csv(path, try_parse_dates=True)
    frame = frame.select(columns)
    casts = []
    for column, kind in frame.collect_schema().items():
        if column.endswith("_id"):
            casts.append(pl.col(column).cast(pl.String))
        elif isinstance(kind, pl.Datetime) and kind.time_zone is not None:
            casts.append(pl.col(column).dt.convert_time_zone("UTC").dt.replace_time_zone(None))
    return frame.with_columns(casts)


def find_stays(data_dir, *, filetype="parquet"):
    """One row a stay: hospitalization_id, start, split, age, sex_male and the label."""
    stay = ["patient_id", "hospitalization_id", "age_at_admission", "discharge_category"]
    admissions = read_table(data_dir, "hospitalization", stay, filetype=filetype)
    sexes = read_table(data_dir, "patient", ["patient_id", "sex_category"], filetype=filetype)
    places = read_table(
        data_dir, "adt", ["hospitalization_id", "in_dttm", "location_category"], filetype=filetype
    )
    first_icu = (
        places.filter(pl.col("location_category").str.to_lowercase() == "icu")
        .group_by("hospitalization_id")
        .agg(start=pl.col("in_dttm").min())
    )
    discharge = pl.col("discharge_category").str.to_lowercase()
    return (
        admissions.filter(pl.col("age_at_admission") >= 18, discharge.is_not_null(), discharge != "missing")
        .join(first_icu, on="hospitalization_id")
        .join(sexes, on="patient_id", how="left")
        .select(
            "hospitalization_id",
            "start",
            pl.col("patient_id").map_elements(split_number, return_dtype=pl.Int64).alias("split"),
            pl.col("age_at_admission").cast(pl.Float64).alias("age"),
            (pl.col("sex_category").str.to_lowercase() == "male").cast(pl.Float64).alias("sex_male"),
            (discharge == "expired").cast(pl.Float64).alias(SCHEMA["label"]),
        )
        .sort("hospitalization_id")
        .collect()
    )


def split_number(patient_id):
    """0 to 99, the same for the same patient on every machine: nobody is trained on and held out."""
    number = 0
    for byte in patient_id.encode("utf-8"):
        number = (number * 31 + byte) % 1_000_003
    return number % 100


def measurements(data_dir, table, *, filetype="parquet"):
    """A table as hospitalization_id, time, category, value."""
    if table == "respiratory_support":
        wide = ["hospitalization_id", "recorded_dttm", "device_category", "fio2_set", "peep_set"]
        frame = read_table(data_dir, table, wide, filetype=filetype)
        devices = frame.select(
            "hospitalization_id",
            pl.col("recorded_dttm").alias("time"),
            pl.col("device_category").alias("category"),
            pl.lit(1.0).alias("value"),
        )
        settings = frame.unpivot(
            index=["hospitalization_id", "recorded_dttm"],
            on=["fio2_set", "peep_set"],
            variable_name="category",
            value_name="value",
        ).rename({"recorded_dttm": "time"})
        return pl.concat([devices, settings.with_columns(pl.col("value").cast(pl.Float64))])
    time, category, value = LONG[table]
    columns = ["hospitalization_id", time, category, *([value] if value else [])]
    return read_table(data_dir, table, columns, filetype=filetype).select(
        "hospitalization_id",
        pl.col(time).alias("time"),
        pl.col(category).alias("category"),
        (pl.col(value).cast(pl.Float64) if value else pl.lit(1.0)).alias("value"),
    )


def add_features(stays, data_dir, *, filetype="parquet"):
    """The cohort: split, the schema's features in its order, the label. One row a stay, no id."""
    window = pl.duration(hours=SCHEMA["window_hours"])
    tables = {feature["table"] for feature in SCHEMA["features"]} - {"hospitalization", "patient"}
    for table in sorted(tables):
        wanted = [feature for feature in SCHEMA["features"] if feature["table"] == table]
        early = (
            measurements(data_dir, table, filetype=filetype)
            .join(stays.lazy().select("hospitalization_id", "start"), on="hospitalization_id")
            .filter(pl.col("time") >= pl.col("start"), pl.col("time") < pl.col("start") + window)
            .group_by("hospitalization_id")
            .agg([statistic(feature) for feature in wanted])
            .collect()
        )
        stays = stays.join(early, on="hospitalization_id", how="left")
    never = [pl.col(f["name"]).fill_null(0.0) for f in SCHEMA["features"] if f["stat"] == "any"]
    names = [feature["name"] for feature in SCHEMA["features"]]
    return stays.with_columns(never).select("split", *names, SCHEMA["label"])


def statistic(feature):
    """One feature of a group of measurements; values outside the plausible range do not count."""
    mine = pl.col("category").str.to_lowercase() == feature["category"].lower()
    if feature["stat"] == "any":
        return mine.any().cast(pl.Float64).alias(feature["name"])
    plausible = pl.col("value").is_between(feature["low"], feature["high"])
    return getattr(pl.col("value").filter(mine & plausible), feature["stat"])().alias(feature["name"])
