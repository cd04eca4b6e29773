"""What every actor must agree on before it writes: the manifest's word, and the lead's hooks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.config.settings import Integrity, Transfer
from stitch.errors import ConfigError, EgressRefused, ProtocolError
from stitch.hooks.inline import FunctionRunner
from stitch.layout import GLOBAL, PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.lanes import Lanes
from tests.unit.loops.actors import Actors, aggregate, train

HOOKS = Hooks(train="hooks.py:train", aggregate="hooks.py:aggregate", model_ext="txt")
REFUSE = Integrity(same_train="refuse")


@pytest.fixture
def actors(tmp_path: Path) -> Actors:
    return Actors(tmp_path)


def actor(actors: Actors, site: str, code: str, **changes: Any) -> Client:
    """A process of a site whose hooks are this code."""
    client, _ = actors.client(site, **{"hooks": HOOKS, "integrity": REFUSE, **changes})
    (client.settings.root / "hooks.py").write_text(code, encoding="utf-8")
    return client


def apart(client: Client) -> Client:
    """The same actor where every lane has a store of its own: it cannot read the lead's."""
    lanes = {lane: store for lane, store in client.lanes.stores.items() if lane in (GLOBAL, client.lane)}
    runner = FunctionRunner({"train": train, "aggregate": aggregate})
    return Client(client.settings, Setup(lanes=Lanes("trial", lanes, {}), runner=runner))


# -- the lead's hooks ----------------------------------------------------------------------------------


def began(actors: Actors, code: str = "one = 1\n") -> Client:
    """A lead with its join document and global 0."""
    lead = actor(actors, "rush", code)
    Lead(lead).step()
    Local(lead).step()
    return lead


@pytest.mark.parametrize("same", [True, False])
def test_a_site_trains_with_the_lead_s_hooks_and_with_no_others(actors: Actors, same: bool) -> None:
    began(actors)
    loop = Local(actor(actors, "nu", "one = 1\n" if same else "one = 2\n"))
    if same:
        assert loop.step().state == "acted"
        return
    with pytest.raises(ConfigError, match=r"the hooks of nu .* are not those of rush"):
        loop.step()
    assert actors.inner.stat(f"trial/{layout.join('nu', 1)}") is not None
    assert list(actors.inner.list("trial/sites/nu/events/pass_")) == []


@pytest.mark.parametrize("same", [True, False])
def test_where_the_lead_s_lane_is_closed_to_it_the_newest_global_tells(actors: Actors, same: bool) -> None:
    began(actors)
    loop = Local(apart(actor(actors, "nu", "one = 1\n" if same else "one = 2\n")))
    if same:
        assert loop.step().state == "acted"
        return
    with pytest.raises(ConfigError, match="are not those of rush"):
        loop.step()


def test_the_lead_s_newest_join_counts(actors: Actors) -> None:
    """It corrected its hooks while a round was under way; the sites take the correction over."""
    began(actors).close()
    corrected = actor(actors, "rush", "one = 2\n")
    Local(corrected).step()
    assert actors.inner.stat(f"trial/{layout.join('rush', 2)}") is not None
    assert Local(actor(actors, "nu", "one = 2\n")).step().state == "acted"


def test_hooks_that_are_no_files_cannot_be_compared(actors: Actors) -> None:
    """A notebook's functions."""
    began(actors)
    client, _ = actors.client("nu", integrity=REFUSE, hooks=replace(HOOKS, train="nowhere.py:train"))
    assert Local(client).step().state == "acted"


def test_a_warning_is_no_refusal(actors: Actors) -> None:
    began(actors)
    assert Local(actor(actors, "nu", "one = 2\n", integrity=Integrity())).step().state == "acted"


# -- the manifest --------------------------------------------------------------------------------------


def test_a_manifest_that_shows_other_settings_than_it_has_the_hash_of_is_no_manifest(
    actors: Actors,
) -> None:
    """Somebody altered what people read; the hash that programs compare is still the right one."""
    lead, store = actors.client("rush")
    lead.begin()
    got = lead.lanes.read(layout.manifest(), limit=1 << 20)
    assert got is not None
    raw = json.loads(got[1])
    raw["settings"]["num_passes"] = 1
    Lanes("trial", {GLOBAL: store}, {}).write(layout.manifest(), json.dumps(raw).encode(), mode="replace")
    site, _ = actors.client("nu")
    with pytest.raises(ProtocolError, match="other settings than it has the hash of"):
        Local(site).step()
    assert list(actors.inner.list("trial/sites/nu/")) == []


def test_another_hook_contract_is_named(actors: Actors) -> None:
    lead, _ = actors.client("rush")
    lead.begin()
    site, _ = actors.client("nu", hooks=Hooks(model_ext="txt", contract="2"))
    with pytest.raises(ConfigError, match=r'contract \(begun with "1", here "2"\)'):
        Local(site).step()


# -- admission at the site -----------------------------------------------------------------------------


def test_a_model_that_the_lead_would_not_take_is_not_sealed_here(actors: Actors) -> None:
    """By hand: a hook's file is measured before."""
    began(actors)
    site, _ = actors.client("nu", hooks=HOOKS, transfer=Transfer(max_file_mb=1))
    site.pull_global(0)
    site.model_path(1).write_bytes(b"9" * 1_000_001)
    with pytest.raises(EgressRefused, match="1000001 bytes"):
        site.push_local_model(1, {"n_samples": 100})
    assert site.mirror.sealed(PassRef(1, "nu")) is None
