"""Steps 0 and 1 of the templates: from a site's CLIF tables to the cohort that the hooks read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stitch.cli.scaffold import render_project, write_site_config
from tests.e2e.hook_federation import SITES, rscript

TABLES: dict[str, dict[str, list[object]]] = {
    "patient": {"patient_id": ["p1", "p2", "p3"], "sex_category": ["Male", "Female", "Female"]},
    "hospitalization": {
        "patient_id": ["p1", "p2", "p3", "p1"],
        "hospitalization_id": ["h1", "h2", "h3", "h4"],
        "age_at_admission": [70, 44, 17, 71],
        "discharge_category": ["Expired", "Home", "Home", "Home"],
    },
    "adt": {
        "hospitalization_id": ["h1", "h1", "h2", "h3", "h4"],
        "in_dttm": [f"2024-01-0{day} 10:00:00" for day in (1, 2, 3, 4, 5)],
        "location_category": ["ward", "icu", "icu", "icu", "ward"],
    },
    "vitals": {
        "hospitalization_id": ["h1", "h1", "h1", "h1", "h2"],
        "recorded_dttm": [
            "2024-01-02 09:59:00",  # before the ICU
            "2024-01-02 10:00:00",
            "2024-01-03 09:59:00",
            "2024-01-03 10:00:00",  # after the first day
            "2024-01-03 11:00:00",
        ],
        "vital_category": ["heart_rate"] * 5,
        "vital_value": [190.0, 80.0, 100.0, 195.0, 900.0],  # the last is not plausible
    },
    "labs": {
        "hospitalization_id": ["h2"],
        "lab_result_dttm": ["2024-01-03 12:00:00"],
        "lab_category": ["lactate"],
        "lab_value_numeric": [2.5],
    },
    "patient_assessments": {
        "hospitalization_id": ["h2"],
        "recorded_dttm": ["2024-01-03 12:00:00"],
        "assessment_category": ["gcs_total"],
        "numerical_value": [9.0],
    },
    "medication_admin_continuous": {
        "hospitalization_id": ["h2"],
        "admin_dttm": ["2024-01-03 12:00:00"],
        "med_category": ["norepinephrine"],
    },
    "respiratory_support": {
        "hospitalization_id": ["h1", "h2"],
        "recorded_dttm": ["2024-01-02 12:00:00", "2024-01-03 12:00:00"],
        "device_category": ["IMV", "Nasal Cannula"],
        "fio2_set": [0.6, None],
        "peep_set": [8.0, None],
    },
}


@pytest.mark.parametrize(
    ("template", "filetype"),
    [("numpy", "parquet"), ("gbm", "csv"), pytest.param("r", "csv", marks=pytest.mark.r)],
)
def test_clif_tables_become_a_cohort(tmp_path: Path, template: str, filetype: str) -> None:
    """Adults with an ICU stay; plausible values of its first 24 hours; no identifier in the result."""
    project = render_project(tmp_path / "icu", lead="rush", sites=SITES, template=template).root
    tables = tmp_path / "tables"
    tables.mkdir()
    for name, columns in TABLES.items():
        frame = pl.DataFrame(columns)
        if filetype == "parquet":
            times = [
                pl.col(column).str.to_datetime(time_zone="US/Central")
                for column in columns
                if "dttm" in column
            ]
            frame.with_columns(times).write_parquet(tables / f"clif_{name}.parquet")
        else:
            frame.write_csv(tables / f"clif_{name}.csv")
    write_site_config(project, site="nu", data_directory=tables.as_posix())
    config = project / "config" / "config.json"
    config.write_text(
        config.read_text(encoding="utf-8").replace('"parquet"', f'"{filetype}"'), encoding="utf-8"
    )
    ending, program = ("R", rscript()) if template == "r" else ("py", sys.executable)
    for step in ("00_cohort", "01_features"):
        subprocess.run([program, f"code/{step}.{ending}"], cwd=project, check=True, timeout=120)
    cohort = pl.read_csv(project / "output" / "intermediate_phi" / "cohort.csv", null_values=["nan"])
    first, second = cohort.to_dicts()
    assert len(cohort) == 2  # h3 is a child, h4 was not in the ICU
    assert (first["age"], first["sex_male"], first["died_in_hospital"]) == (70, 1, 1)
    assert (first["heart_rate_min"], first["heart_rate_mean"], first["heart_rate_max"]) == (80, 90, 100)
    assert (first["imv_any"], first["fio2_set_max"], first["vasopressor_any"]) == (1, 0.6, 0)
    assert (second["heart_rate_min"], second["lactate_max"], second["gcs_total_min"]) == (None, 2.5, 9)
    assert (second["imv_any"], second["vasopressor_any"], second["died_in_hospital"]) == (0, 1, 0)
    assert "hospitalization_id" not in cohort.columns
    assert {first["split"], second["split"]} == {
        (b"p1"[0] * 31 + ord("1")) % 100,
        (ord("p") * 31 + ord("2")) % 100,
    }
