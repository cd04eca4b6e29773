"""What leaves a site when its hook fails: a type and a place, the hook's own words only by opt-in (law 8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stitch.errors import HookFailed, StoreUnavailable
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.base import Entry
from tests.unit.loops.actors import Actors

SECRET = "patient 4711 has no potassium"


def broken(*, global_path: Path, out_path: Path, data_dir: Path) -> dict[str, int]:
    """A hook whose message names a patient."""
    raise ValueError(f"{SECRET} in {global_path.name}, {out_path.name}, {data_dir.name}")


@pytest.fixture
def actors(tmp_path: Path) -> Actors:
    """A run that the lead has begun."""
    made = Actors(tmp_path)
    client, _ = made.client("rush")
    lead = Lead(client)
    while lead.step().state == "acted":
        pass
    client.close()
    return made


def everything(actors: Actors) -> bytes:
    """All bytes in the store."""
    inner, to = actors.inner, actors.folder / "looked-at"
    data = b""
    for entry in list(inner.list("")):
        inner.pull(entry.key, to)
        data += to.read_bytes()
    return data


def test_the_failed_event_holds_the_type_and_the_line_and_not_the_message(actors: Actors) -> None:
    client, _ = actors.client("nu")
    client.runner = FunctionRunner({"train": broken})
    with pytest.raises(HookFailed):
        Local(client).step()
    client.close()
    stored = everything(actors)
    assert b'"exception": "ValueError"' in stored
    assert b"test_what_a_failure_tells.py:" in stored
    assert SECRET.encode() not in stored
    assert SECRET in (client.settings.runs_dir / "last_error.json").read_text("utf-8")


def test_by_opt_in_the_hook_s_own_words_leave(actors: Actors) -> None:
    client, _ = actors.client("nu")
    client.settings = replace(client.settings, egress=replace(client.settings.egress, error_messages=True))
    client.runner = FunctionRunner({"train": broken})
    with pytest.raises(HookFailed):
        Local(client).step()
    client.close()
    assert SECRET.encode() in everything(actors)


def test_a_store_that_is_away_does_not_hide_the_hook_s_error(
    actors: Actors, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, store = actors.client("nu")
    client.runner = FunctionRunner({"train": broken})
    push = store.push

    def away(src: Path, key: str, **more: object) -> Entry:
        if ".failed" in key:
            raise StoreUnavailable("the store does not answer")
        return push(src, key, **more)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(store, "push", away)
    with pytest.raises(HookFailed):
        Local(client).step()
    client.close()
