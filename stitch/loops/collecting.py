"""The inputs of a round, before its verdict: pulled, verified and admitted, or left out by name (law 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stitch.client import Client
from stitch.client.admission import admit
from stitch.client.inspection import looks_into, unfit_model
from stitch.client.watch import Ready
from stitch.errors import DiskError, HookError, ProtocolError, StoreError
from stitch.layout import PassRef
from stitch.loops.aborting import Aborting
from stitch.loops.round import Round
from stitch.mirror import Sealed
from stitch.rounds import Code, Reason

_REASON = 300
"""Characters that a verdict gives to the reason for leaving a site out."""


@dataclass(slots=True)
class Look:
    """One look at the sites, and what has come of it so far."""

    ready: Ready
    unready: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    admitted: list[Sealed] = field(default_factory=list)


class Collecting:
    """Brings the inputs of a round together.

    Args:
        client: the lead's.
        aborting: gives an attempt up whose data are not what its site declared.
        timed: whether the round has a deadline: then it goes on without what cannot be believed.
    """

    def __init__(self, client: Client, aborting: Aborting, *, timed: bool) -> None:
        self._client = client
        self._aborting = aborting
        self._timed = timed
        self._looked: dict[str, Reason | None] = {}  # what the admit hook said, by the hash of a seal

    def collect(self, now: Round, refs: Sequence[PassRef], *, look: Look) -> bool:
        """Pull, verify and admit the inputs before the verdict (law 11); whether all of them can be used.

        What is not whole yet is waited for like what is not sealed. What cannot be believed or
        admitted is left out by a quorum; without one only what weighs nothing is left out.

        Raises:
            CommitmentMismatch: a site declares other data than it began with, and that costs the round.
            HookError: the admit hook failed.
            DiskError: our own disk is the trouble.
        """
        look.admitted = []
        for ref in refs:
            site = str(ref.site)
            try:
                _, sealed = self._client.pull_site(ref)
                trouble = f"the pass of {site} is not whole in the store yet"
            except ProtocolError as error:
                sealed, trouble = None, f"the pass of {site} is rejected: {error} ({error.hint})"
                if self._timed:
                    now.rejected[ref] = str(error)[:_REASON]  # it quotes what a site wrote
            except StoreError as error:
                sealed, trouble = None, self._unknown(look, site, error=error)
            if sealed is not None:
                look.admitted.append(sealed)
            else:
                self._not_ready(look, site, why=trouble)
        for ref, reason in self._admit(look).items():
            site = str(ref.site)
            if reason.code is Code.NOT_BOUND:  # law 7: a copied folder may still bring it
                self._not_ready(look, site, why=f"the started event of {site} is not there yet")
            elif reason.code is Code.COMMITMENT and self._client.settings.policy.on_mismatch == "abort":
                raise self._aborting.mismatch(now, site)
            else:
                now.rejected[ref] = reason
        return len(look.admitted) == len(refs)

    def _admit(self, look: Look) -> dict[PassRef, Reason]:
        """Admit what was pulled, one by one; why others are not admitted."""
        pulled, look.admitted, excluded = look.admitted, [], dict[PassRef, Reason]()
        for sealed in pulled:
            site = str(sealed.ref.site)
            try:
                inputs, reasons = admit([sealed], self._client)
            except StoreError as error:
                self._not_ready(look, site, why=self._unknown(look, site, error=error))
                continue
            for fit in inputs:
                reason = self._inspected(fit)
                if reason is None:
                    look.admitted.append(fit)
                else:
                    reasons[site] = reason
            if site in reasons:
                excluded[sealed.ref] = reasons[site]
        return excluded

    def _inspected(self, sealed: Sealed) -> Reason | None:
        """What the admit hook says of a pass, or why it cannot be expanded, asked once.

        Raises:
            HookError: the hook itself failed.
        """
        client, number = self._client, int(sealed.seal.base_pass or 0)
        if not looks_into(client.settings):
            return None
        if sealed.sha256 not in self._looked:
            base = client.mirror.sealed(PassRef(number)) or client.require_global(number)
            try:
                self._looked[sealed.sha256] = unfit_model(
                    client, sealed.seal, ref=sealed.ref, model=sealed.model, base=base.model
                )
            except HookError as error:
                client.trail.last_error(
                    error, pass_id=sealed.ref.number, phase="admitting", model_path=sealed.model
                )
                raise
        return self._looked[sealed.sha256]

    def _unknown(self, look: Look, site: str, *, error: StoreError) -> str:
        """Law 7: what happens to one lane is no reason to hold up the others, or to abort.

        Raises:
            DiskError: our own disk is the trouble, not the site's store.
        """
        if isinstance(error, DiskError):
            raise error
        look.unknown.add(site)
        return f"the pass of {site} cannot be read: {error}"

    def _not_ready(self, look: Look, site: str, *, why: str) -> None:
        look.unready[site] = why
        self._client.watch.forget(site)
