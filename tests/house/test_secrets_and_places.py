"""Nothing in the repository says where it was made, nor opens a door."""

from __future__ import annotations

import re

import pytest

from tests.house.source import ROOT, project_files

# Written in pieces, so that this file passes its own test.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "deb." + "debian.org",
]
PLACES = [
    r"(?<![\w.])/(w" + r"ork|ro" + r"ot)/\w",
    r"(?<![\w.])/t" + r"mp/\w",
    r"[A-Z]:\\Users\\(?!name|me\b)\w+\\",
]
TOKENS = [
    r"[?&;]s" + r"ig=[A-Za-z0-9%+/]{24,}",
    "Account" + r"Key=[A-Za-z0-9+/]{40,}",
    "BEGIN [A-Z ]*PRIVATE" + " KEY",
]
# The key of every Azurite in the world, published by Microsoft: no secret.
AZURITE_KEY = re.compile(
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
BINARY = {".npz", ".parquet", ".png", ".ico", ".gz", ".ubj"}


@pytest.mark.parametrize("pattern", [*map(re.escape, REGISTRIES), *PLACES, *TOKENS])
def test_no_file_holds(pattern: str) -> None:
    found = re.compile(pattern)
    hits: list[str] = []
    for path in project_files():
        if path.suffix in BINARY:
            continue
        text = AZURITE_KEY.sub("", (ROOT / path).read_text(encoding="utf-8"))
        hits += [f"{path}:{text.count(chr(10), 0, hit.start()) + 1}" for hit in found.finditer(text)]
    assert hits == []


def test_what_a_site_makes_is_never_tracked() -> None:
    private = {".env", ".env.txt", "uv.lock", "config.json"}
    folders = {"stitch_store", "kits"}
    assert [str(p) for p in project_files() if p.name in private or folders & set(p.parts)] == []
