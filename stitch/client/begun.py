"""The run as the lead documents it: the manifest, its seeds and pins, the roster, the attempts of a round."""

from __future__ import annotations

import secrets

from stitch import layout
from stitch.client.actor import Actor
from stitch.client.pins import pinned
from stitch.config import config_facts, differences, facts_sha256
from stitch.errors import ConfigError, ProtocolError
from stitch.layout import GLOBAL
from stitch.rounds import Attempt, root_seed_of, round_seed
from stitch.store.place import check_place
from stitch.sync.documents import Stored
from stitch.version import __version__
from stitch.wire import MAX_BYTES, Abort, Manifest, Roster, Verdict, sha256


class Begun(Actor):
    """What every actor of a run must agree on before anything is written."""

    _manifest: Manifest | None = None
    _manifest_sha256 = ""
    _roster: Roster | None = None  # the newest we saw; rosters are never changed

    @property
    def manifest(self) -> Manifest | None:
        """The run's manifest, once the lead has begun the run."""
        if self._manifest is None:
            self.check_manifest()
        return self._manifest

    @property
    def manifest_sha256(self) -> str:
        """Hash of the manifest's bytes: the root of the chain."""
        return self._manifest_sha256

    def check_manifest(self) -> bool:
        """Compare store, mirror and settings (law 4); False while the lead has not begun.

        Raises:
            ProtocolError: the store was emptied or swapped since this mirror saw it.
            ConfigError: the run was begun with other settings; the differing keys are named.
            SignatureRefused: the lead did not sign the manifest.
        """
        path = layout.manifest()
        kept, got = self.mirror.read(path), self.lanes.read(path, limit=MAX_BYTES)
        if kept is not None and (got is None or got[1] != kept):
            what = "has no" if got is None else "has another"
            raise ProtocolError(
                f"the store {what} manifest of run {self.settings.run_id}: it was emptied or swapped",
                hint="Check the store URL. For a new run choose a new run_id; nothing was changed.",
            )
        if got is None:
            return False
        manifest = Manifest.parse(got[1], source=path)
        check_place(manifest, path, run_id=self.settings.run_id)
        self._agree(manifest)
        self.documents.check(path, got[1])
        if kept is None:
            self.mirror.keep(path, got[1])
        self._manifest, self._manifest_sha256 = manifest, sha256(got[1])
        return True

    def begin(self) -> None:
        """At the lead: create the manifest, unless it is there.

        Raises:
            PinMismatch: a pinned file is another one here; nothing was created.
        """
        begun = self.check_manifest()
        if self.settings.pins:
            self.pins(self.passes.newest(GLOBAL) + 1 if begun else 0)
        if begun:
            return
        settings = self.settings
        root_seed = settings.root_seed
        manifest = Manifest.make(
            run_id=settings.run_id,
            lead=settings.lead,
            settings=config_facts(settings),
            config_sha256=self.config_sha256,
            root_seed=root_seed_of(secrets.token_bytes(7)) if root_seed is None else root_seed,
            stitch_version=__version__,
            created_at=self.clock.now(),
        )
        self.documents.create(layout.manifest(), manifest)
        self.check_manifest()

    def _agree(self, manifest: Manifest) -> None:
        if facts_sha256(manifest.settings) != manifest.config_sha256:
            raise ProtocolError(
                f"the manifest of run {self.settings.run_id} shows other settings than it has the hash of",
                hint="The store was altered: keep it as it is and show this line to the lead.",
            )
        if manifest.config_sha256 != self.config_sha256:
            differing = differences(manifest.settings, config_facts(self.settings))
            raise ConfigError(
                f"run {self.settings.run_id} was begun with other settings: {differing}",
                hint="Use the stitch.toml that the run was begun with; other settings need a new run_id.",
            )

    def seed(self, pass_id: int) -> int:
        """The seed of round `pass_id`, or of pass 0's training.

        Raises:
            ProtocolError: the run has not begun.
        """
        manifest = self.manifest
        if manifest is None:
            raise ProtocolError("the lead has not begun the run", hint="Wait for the lead, then try again.")
        return round_seed(manifest.root_seed, pass_id)

    def pins(self, pass_id: int) -> dict[str, str]:
        """The pins that hold for a pass, by name, each compared with its file as it is now.

        Args:
            pass_id: a site pass or a global; those with `when = "pass_0"` hold for 0 and 1.

        Raises:
            PinMismatch: a file is missing, or has other bytes than those agreed on.
        """
        return pinned(self.settings, pass_id)

    # -- rounds ----------------------------------------------------------------------------------

    def newest_roster(self) -> Roster | None:
        """The newest roster; None before the lead has begun the run."""
        number = self._roster.number + 1 if self._roster else 1
        while (stored := self.documents.read(layout.roster(number), Roster)) is not None:
            self._roster, number = stored.doc, number + 1
        return self._roster

    def attempt_of(self, pass_id: int) -> tuple[Attempt, Stored[Verdict] | None]:
        """The attempt of a round that is under way, and its verdict if it is closed.

        One request for a round nobody decided yet.
        """
        now = Attempt(pass_id)
        while (stored := self.documents.read(layout.verdict(pass_id, now.attempt), Verdict)) is not None:
            given_up = self.documents.read(layout.abort(pass_id, now.attempt), Abort)
            if stored.doc.verdict == "closed" and given_up is None:
                return now, stored
            at = given_up.entry.modified if given_up else stored.entry.modified
            now = now.after(redo=stored.doc.redo, at=at)
        return now, None
