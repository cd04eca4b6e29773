"""`clif-stitch audit`, as a user calls it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

from tests.cli.federation import Federation


def keys(run: Path) -> list[Path]:
    """All but the locks that a folder store keeps."""
    return [path for path in run.rglob("*") if path.is_file() and not path.name.startswith(".")]


def test_it_lists_every_file_in_the_stores_order_and_agrees_with_them(once: Federation) -> None:
    found = json.loads(once.nu.call("audit", "--json").out)
    assert (found["kind"], found["run_id"], found["problems"]) == ("stitch.audit/1", "icu", [])
    there = {path.relative_to(once.run).as_posix(): path for path in keys(once.run)}
    assert {line["path"] for line in found["lines"]} == set(there)
    assert [line["at"] for line in found["lines"]] == sorted(line["at"] for line in found["lines"])
    for line in found["lines"]:
        data = there[line["path"]].read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        assert line["size"] == len(data)
        assert line["signer"] == ""
        assert line["digest"] == (sha256 if line["digest_of"] == "bytes" else sha256[:12])
        assert line["who"] == ("nu" if line["path"].startswith("sites/nu/") else "rush")
    kinds = {line["what"] for line in found["lines"]}
    assert {"manifest", "roster", "seal", "model", "verdict", "done", "join", "started", "term"} <= kinds
    order = [line["path"] for line in found["lines"]]
    assert order.index("global/manifest.json") < order.index("global/DONE.json")


def test_the_table_fits_80_columns(once: Federation) -> None:
    said = once.lead.call("audit")
    assert said.code == 0
    assert said.out.isascii()
    assert max(len(line) for line in said.out.splitlines()) <= 80
    assert " lead " in said.out
    assert len(said.out.splitlines()) == 2 + len(keys(once.run)), "one line a file"


def test_csv_is_one_row_a_file(once: Federation) -> None:
    rows = list(csv.DictReader(io.StringIO(once.nu.call("audit", "--csv").out)))
    assert len(rows) == len(keys(once.run))
    assert list(rows[0])[:5] == ["at", "lane", "who", "what", "pass_id"]
    assert rows[-1]["path"].startswith(("global/", "sites/"))


def test_what_is_foreign_or_too_large_is_listed_and_not_read(finished: Federation) -> None:
    """Sparse files of a gigabyte: reading one would fill memory, or take longer than the test may."""
    lane = finished.run / "sites/nu"
    for name in ("payload.iso", "pass_007/metrics.json"):
        (lane / name).parent.mkdir(exist_ok=True)
        with (lane / name).open("wb") as file:
            file.truncate(1_000_000_000)
    (lane / "=cmd|calc").write_text("x", encoding="utf-8")
    (finished.run / "sites/nu/pass_001/metrics.json").write_text("{}", encoding="utf-8")
    said = finished.lead.call("audit", "--json")
    assert said.code == 0
    lines = {line["path"]: line for line in json.loads(said.out)["lines"]}
    foreign, large = lines["sites/nu/payload.iso"], lines["sites/nu/pass_007/metrics.json"]
    assert (foreign["what"], foreign["size"], foreign["digest"]) == ("foreign", 1_000_000_000, "")
    assert (large["what"], large["size"], large["note"]) == (
        "seal",
        1_000_000_000,
        "too large for a document: not read",
    )
    assert "no `kind`" in lines["sites/nu/pass_001/metrics.json"]["note"]
    assert lines["sites/nu/pass_001/metrics.json"]["digest"] == hashlib.sha256(b"{}").hexdigest()
    assert "1.0 GB" in finished.lead.call("audit").out
    assert "\n=cmd" not in finished.lead.call("audit", "--csv").out


def test_a_lane_without_a_store_is_said(finished: Federation) -> None:
    url = finished.store.as_posix()
    finished.nu.write(".env", f'STITCH_STORE_GLOBAL="{url}"\nSTITCH_STORE_SITE="{url}"\n')
    said = finished.nu.call("audit")
    assert said.code == 0
    assert "not readable from here: sites/rush" in said.out


def test_without_a_store_there_is_nothing_to_list(finished: Federation) -> None:
    (finished.nu.root / ".env").unlink()
    said = finished.nu.call("audit")
    assert said.code == 2
    assert "no store URL is set" in said.cause


def test_json_and_csv_exclude_one_another(once: Federation) -> None:
    assert once.nu.call("audit", "--json", "--csv").code == 2


def test_it_changes_nothing(finished: Federation) -> None:
    before = _times(finished)
    finished.nu.call("audit")
    finished.nu.call("audit", "--csv")
    assert _times(finished) == before


def _times(made: Federation) -> dict[str, int]:
    files = (path for path in made.store.parent.rglob("*") if path.is_file())
    return {str(path): path.stat().st_mtime_ns for path in files if "__pycache__" not in path.parts}
