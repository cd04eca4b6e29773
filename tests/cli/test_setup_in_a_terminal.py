"""`setup` as a person at a site meets it: what must not be seen is not shown while it is typed."""

from __future__ import annotations

import json
import sys
from urllib.parse import unquote

import pytest

from stitch.testing.azurite import Azurite
from tests.cli.federation import Federation
from tests.cli.terminal import terminal


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_a_store_url_is_not_shown_while_it_is_typed(federation: Federation, azurite: Azurite) -> None:
    url = azurite.container_url(azurite.new_container())
    place, _, token = url.partition("?")
    (federation.nu.root / ".env").unlink()
    (federation.nu.root / "config/config.json").unlink()
    with terminal(federation.nu.root, *federation.nu.command("setup")) as shown:
        for question, answer in (
            ("Which site is this (rush, nu): ", "NU"),
            ("Folder of your CLIF tables: ", "data"),
            ("one URL a lane): ", url),  # the space comes last, when it is ready to read
        ):
            shown.await_text(question)
            shown.type(answer)
        assert shown.end() == 0, shown.screen
    assert "(rush, nu): NU\n" in shown.screen  # other answers are seen
    assert "Folder of your CLIF tables: data\n" in shown.screen
    assert f"STITCH_STORE: {place}\n" in shown.screen
    for secret in (url, token, token.partition("sig=")[2], "sig="):
        assert secret not in shown.text
    assert "store sites/nu" in shown.screen  # doctor has looked
    written = (federation.nu.root / ".env").read_text(encoding="utf-8")
    assert unquote(written) == f'STITCH_STORE="{unquote(url)}"\n'
    settings = json.loads((federation.nu.root / "config/config.json").read_text(encoding="utf-8"))
    assert settings["site_name"] == "nu"
