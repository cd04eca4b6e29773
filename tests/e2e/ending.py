"""What every federation must have come to, however often its processes died on the way."""

from __future__ import annotations

import hashlib

from stitch import layout
from stitch.layout import PassRef, What
from stitch.wire import Done, Seal
from tests.e2e.federation import Federation


def final_model(fed: Federation) -> bytes:
    """The bytes of the final global, as the end marker names it."""
    done = Done.parse(fed.read(layout.done()), source="DONE.json")
    assert done.final_pass is not None
    seal = Seal.parse(fed.read(PassRef(done.final_pass).seal), source="seal")
    return fed.read(f"global/{layout.pass_name(done.final_pass)}/{seal.model_file}")


def check_ending(fed: Federation, *, wanted: bytes, last: int | None = None, untidy: str = "") -> None:
    """Every law that shows in the files; and the final bytes are those of an undisturbed run.

    Args:
        fed: all its actors have ended.
        wanted: the final model of an undisturbed run.
        last: the final pass; default: all passes.
        untidy: a site whose own work is not looked at: an orphan still writes into it, or it lost its
            lane with a pass sealed here that another machine's overtook.
    """
    last = fed.num_passes if last is None else last
    assert final_model(fed) == wanted
    keys = [layout.require(path) for path in fed.paths()]
    seals = [key.ref for key in keys if key.what is What.SEAL]
    passes = [PassRef(k, site) for site in fed.sites for k in range(1, last + 1)]
    # Nothing beyond the final pass, nothing missing, every pass sealed once.
    assert sorted(seals, key=str) == sorted([PassRef(k) for k in range(last + 1)] + passes, key=str)
    _check_chain(fed, last)
    for ref in passes:
        attempt = Seal.parse(fed.read(ref.seal), source=ref.seal).attempt
        completed = layout.event(str(ref.site), ref.number, name=layout.Event.COMPLETED, attempt=attempt)
        assert fed.has(completed)
    orchestration = fed.json(layout.orchestration())
    assert (orchestration["phase"], orchestration["final_pass"]) == ("complete", last)
    for site in fed.sites:
        _check_mirror(fed, site, last=last, own=site != untidy)
        if site != untidy:
            staging = fed.mirror(site) / "local" / "staging"
            assert not staging.exists() or list(staging.iterdir()) == []


def _check_chain(fed: Federation, last: int) -> None:
    """Each global names its predecessor by hash, and its inputs: all sites', each once."""
    before = hashlib.sha256(fed.read(layout.manifest())).hexdigest()
    for number in range(last + 1):
        data = fed.read(PassRef(number).seal)
        seal = Seal.parse(data, source=f"global {number}")
        record = seal.round
        assert record is not None
        assert record.prev_metrics_sha256 == before
        assert seal.final == (number == last)
        assert [one.site for one in record.inputs] == (sorted(fed.sites) if number else [])
        for one in record.inputs:
            ref = PassRef(number, one.site)
            theirs = fed.read(ref.seal)
            assert one.metrics_sha256 == hashlib.sha256(theirs).hexdigest()
            model = fed.read(f"{ref.folder}/{Seal.parse(theirs, source='seal').model_file}")
            assert one.model_sha256 == hashlib.sha256(model).hexdigest()
        before = hashlib.sha256(data).hexdigest()


def _check_mirror(fed: Federation, site: str, *, last: int, own: bool) -> None:
    """The site holds the final global, and every pass it holds is byte for byte the store's."""
    mirror, final = fed.mirror(site), PassRef(last)
    assert (mirror / final.folder / "model.bin").read_bytes() == final_model(fed)
    assert (mirror / final.seal).exists()
    for seal in (*mirror.glob("global/pass_*/metrics.json"), *mirror.glob("sites/*/pass_*/metrics.json")):
        path = seal.relative_to(mirror).as_posix()
        if own or not path.startswith(f"sites/{site}/"):
            assert seal.read_bytes() == fed.read(path), path
