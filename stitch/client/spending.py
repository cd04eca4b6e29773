"""Charging a site's passes to its data set's journal, around what the loops and verbs do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stitch import layout
from stitch.client.actor import Actor
from stitch.client.budget import Release, budget_of, journal_of, noise_of, plan_left
from stitch.errors import BadDocument, ProtocolError
from stitch.layout import Event, PassRef, What
from stitch.mirror import Mirror, Sealed
from stitch.rounds.transforms import is_private
from stitch.wire import Seal


def require_budget(actor: Actor) -> None:
    """Before a training: the journal is whole, and one more release stays within the budget.

    Raises:
        PrivacyBudgetExceeded, PrivacyError: nothing may leave.
    """
    settings = actor.settings
    if settings.privacy.mode is None:
        return
    journal = journal_of(settings)
    journal.require_complete(_published_here(actor))
    journal.require_room(noise_of(settings), budget=budget_of(settings))


def require_journal(actor: Actor, published: Iterable[PassRef]) -> None:
    """At a start: the journal knows what the store already holds of this site, sealed or not.

    A model is released once it is up: whoever died before its seal has told it all the same.

    Args:
        actor: the site's.
        published: its sealed passes in the store.

    Raises:
        PrivacyError: it does not.
    """
    if actor.settings.privacy.mode is None:
        return
    there, sealed = list(_published_here(actor)), set[str]()
    for ref in sorted(published, key=lambda one: (one.number, one.attempt)):
        stored = actor.passes.read_seal(ref)
        if stored is not None:
            sealed.add(stored.doc.model_sha256)
        if stored is not None and is_private(stored.doc.transforms):
            there.append(stored.doc.model_sha256)
    keys = (layout.parse(entry.key) for entry in actor.lanes.list(f"{actor.lane}/pass_"))
    models = {key.digest for key in keys if key is not None and key.what is What.MODEL}
    # One that a seal names is judged by that: a pass without noise is no release.
    uploaded = models - {digest[: layout.DIGEST_CHARS] for digest in sealed}
    journal = journal_of(actor.settings)
    journal.require_complete(there, uploaded=uploaded)
    possible, wanted = plan_left(actor.settings, journal.releases())
    if possible < wanted:
        text = f"the privacy budget holds {possible} of the {wanted} passes that are left"
        actor.journal.note(actor.lane, "warn", text=text)


def charge(actor: Actor, sealed: Sealed) -> None:
    """Before an upload: the release is in the journal, once.

    Raises:
        PrivacyBudgetExceeded, PrivacyError: it may not leave, and nothing was charged.
    """
    settings, seal = actor.settings, sealed.seal
    if settings.privacy.mode is None or not is_private(seal.transforms):
        return
    journal = journal_of(settings)
    journal.require_complete(_published_here(actor))
    release = Release(
        dataset=settings.privacy.dataset,
        run=settings.run_id,
        site_pass=sealed.ref.number,
        attempt=sealed.ref.attempt,
        sigma=noise_of(settings),
        clip=settings.privacy.clip,
        release_sha256=seal.model_sha256,
        at=actor.clock.now().isoformat(),
    )
    if journal.charge(release, budget=budget_of(settings)):
        spent = budget_of(settings).spent(one.sigma for one in journal.releases())
        text = f"pass {sealed.ref.number}: epsilon {spent:.4g} of {settings.privacy.epsilon:g} is spent"
        actor.journal.note(actor.lane, "charge", text=text, pass_id=sealed.ref.number)


def _published_here(actor: Actor) -> Iterator[str]:
    """Hashes of private models that any run in this project has sent, as far as its mirrors tell.

    One counts once its `completed` event is there: what is only sealed has not left.
    """
    settings = actor.settings
    lane = layout.site_lane(settings.site)
    runs = settings.mirror_dir.parent
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        mirror = Mirror(folder)
        for ref in mirror.passes(lane):
            try:
                seal = Seal.parse(mirror.read(ref.seal) or b"", source=ref.seal)
            except (BadDocument, ProtocolError):
                continue
            report = layout.event(
                settings.site, ref.number, name=Event.COMPLETED, attempt=max(1, seal.attempt)
            )
            if is_private(seal.transforms) and mirror.read(report) is not None:
                yield seal.model_sha256
