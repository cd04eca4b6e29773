"""`.env` as editors and shells write it, and the store of every lane."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.config.environment import parse_env, reload_environ, store_urls
from stitch.config.text import read_text, write_text
from stitch.errors import ConfigError

URL = "https://acct.blob.core.windows.net/c?sv=2024-11-04&sr=c&sig=abc%3D"
SITES = ("rush", "nu", "u-c")


@pytest.mark.parametrize(
    "line",
    [
        f"STITCH_STORE={URL}",
        f"STITCH_STORE = {URL}  # from the lead",
        f'export STITCH_STORE="{URL}"',
        f"set STITCH_STORE={URL}",
        f'$env:STITCH_STORE = "{URL}"',
        f"STITCH_STORE='{URL}' # quoted",
        f"STITCH_STORE={URL[:50]}\n{URL[50:]}",
        f"STITCH_STORE={URL.split('sr=', maxsplit=1)[0]}\nsr={URL.split('sr=')[1]}",
    ],
)
def test_dialects(line: str) -> None:
    assert parse_env(f"# a comment\n\n{line}\nOTHER=1\n", file=".env") == {"STITCH_STORE": URL, "OTHER": "1"}


def test_a_line_that_is_no_assignment_is_named_and_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"\.env, line 2") as caught:
        parse_env("A=1\nsome token\n", file=".env")
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfA=1\r\nB=2\r\n", "A=1\r\nB=2".encode("utf-16"), b"A=1\rB=2"])
@pytest.mark.parametrize("name", [".env", ".env.txt"])
def test_editors_encodings(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert reload_environ(tmp_path, {}) == {"A": "1", "B": "2"}


def test_the_real_environment_wins_and_an_empty_variable_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=file\n", encoding="utf-8")
    (tmp_path / ".env.txt").write_text("A=text\nC=text\n", encoding="utf-8")
    assert reload_environ(tmp_path, {"B": "real"}) == {"A": "file", "B": "real", "C": "text"}
    assert reload_environ(tmp_path, {"B": "", "D": ""}) == {"A": "file", "B": "file", "C": "text", "D": ""}


def urls(environ: dict[str, str], root: Path, site: str = "nu") -> dict[str, str]:
    found = store_urls(environ, root=root, site=site, sites=SITES)
    return {"global": found.global_, "site": found.site, "heartbeat": found.heartbeat, **found.lanes}


def test_one_store_for_all_lanes(tmp_path: Path) -> None:
    found = urls({"STITCH_STORE": URL}, tmp_path)
    assert set(found.values()) == {URL}
    assert set(found) == {"global", "site", "heartbeat", *SITES}


def test_a_store_for_each_lane(tmp_path: Path) -> None:
    environ = {
        "STITCH_STORE_GLOBAL": "file:///g",
        "STITCH_STORE_SITE": "file:///r",
        "STITCH_STORE_HEARTBEAT": "file:///h",
        "STITCH_STORE_NU": "file:///n",
        "STITCH_STORE_U_C": "file:///u",
    }
    assert urls(environ, tmp_path, site="rush") == {
        "global": "file:///g",
        "site": "file:///r",
        "heartbeat": "file:///h",
        "rush": "file:///r",
        "nu": "file:///n",
        "u-c": "file:///u",
    }


def test_the_special_name_wins_over_the_common_one(tmp_path: Path) -> None:
    found = urls({"STITCH_STORE": "file:///all", "STITCH_STORE_GLOBAL": "file:///g"}, tmp_path)
    assert (found["global"], found["site"], found["rush"]) == ("file:///g", "file:///all", "file:///all")


def test_a_folder_is_meant_from_the_project(tmp_path: Path) -> None:
    found = urls({"STITCH_STORE": "../the store"}, tmp_path)
    assert found["site"] == (tmp_path.parent / "the store").as_uri()
    assert urls({"STITCH_STORE": r"C:\store"}, tmp_path)["site"] == r"C:\store"
    assert urls({"STITCH_STORE": r"\\server\share"}, tmp_path)["site"] == r"\\server\share"


def test_a_url_beyond_repair_names_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"STITCH_STORE_SITE: .*Mimecast"):
        urls({"STITCH_STORE_SITE": "https://protect-us.mimecast.com/s/abc"}, tmp_path)


def test_store_urls_are_not_in_a_repr(tmp_path: Path) -> None:
    assert "sig" not in repr(store_urls({"STITCH_STORE": URL}, root=tmp_path, site="nu", sites=SITES))


def test_files_are_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / ".env"
    write_text(file, "A=\u00e9\n")
    write_text(file, "A=2\n")
    assert read_text(file) == "A=2\n"
    assert [path.name for path in file.parent.iterdir()] == [".env"]
    assert file.stat().st_mode & 0o077 == 0
