"""Admission with its evidence gathered: the terms of the run, the chain, and what `started` declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitch import layout
from stitch.client.begun import Begun
from stitch.client.releasing import site_transforms
from stitch.config.pins import pins_in_force
from stitch.errors import (
    CommitmentMismatch,
    ConfigError,
    EgressRefused,
    HookOutput,
    PinMismatch,
    ProtocolError,
)
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed
from stitch.rounds import Code, Reason, Started, Terms, unfit, unsigned, unused
from stitch.wire import EventDoc, Seal

_NOT_SEALED = "Nothing was sealed and nothing left this machine. "


def admit(passes: Sequence[Sealed], lead: Begun) -> tuple[list[Sealed], dict[str, Reason]]:
    """Split verified passes into inputs, sorted by site id, and reasons for the others.

    Of the reasons, `Code.NOT_BOUND` may pass: in a copied folder a site's `started` event may arrive
    after its seal. `Code.COMMITMENT` is what `CommitmentMismatch` stands for. All others are final.

    Args:
        passes: whole, hashed passes.
        lead: whose mirror holds the globals of this chain; its stores hold the sites' events.

    Raises:
        StoreError: an event could not be looked at: the site is unknown, not to blame (law 7).
    """
    inputs: list[Sealed] = []
    excluded: dict[str, Reason] = {}
    for sealed in sorted(passes, key=lambda one: str(one.ref.site)):
        reason = _reason(sealed, lead)
        if reason is None:
            inputs.append(sealed)
        else:
            excluded[str(sealed.ref.site)] = reason
    return inputs, excluded


def _reason(sealed: Sealed, lead: Begun) -> Reason | None:
    seal, ref = sealed.seal, sealed.ref
    signing = lead.documents.signing
    if signing is not None:
        forged = unsigned(signing.signer_of(ref.seal, sealed.data), signing.listed(str(ref.site)))
        if forged is not None:
            return forged
    terms = terms_of(lead, seal)
    word = Started(seal.dataset_root)  # taken for the site's, until everything else about the pass is right
    otherwise = unfit(seal, replace(terms, commit=False), ref=ref, started=word)
    if otherwise is not None or (seal.dataset_root is None and not terms.commit):
        return otherwise or unused(seal)
    try:
        started = read_started(lead, ref, attempt=seal.attempt)
    except ProtocolError:
        return Reason(Code.NOT_BOUND, "the started event of its training cannot be read")
    return unfit(seal, terms, ref=ref, started=started) or unused(seal)


def terms_of(actor: Begun, seal: Seal) -> Terms:
    """What the run and its chain, as far as this mirror has it, ask of a pass with this seal.

    Raises:
        ProtocolError: the run has not begun.
    """
    settings = actor.settings
    manifest = actor.manifest
    if manifest is None:
        raise ProtocolError("the lead has not begun the run", hint="Wait for the lead, then try again.")
    base = None if seal.base_pass is None else actor.mirror.sealed(PassRef(seal.base_pass))
    pins = pins_in_force(settings.pins, seal.pass_id)
    return Terms(
        run_id=settings.run_id,
        config_sha256=manifest.config_sha256,
        root_seed=manifest.root_seed,
        ext=settings.hooks.model_ext,
        max_bytes=settings.transfer.max_bytes,
        chain={} if base is None else {base.ref.number: base.seal.model_sha256},
        pins={name: pin.sha256 for name, pin in pins.items()},
        commit=settings.integrity.commit,
        transforms=site_transforms(settings),
    )


def read_started(actor: Begun, ref: PassRef, *, attempt: int) -> Started | None:
    """What the `started` event of a site's training attempt declared; None when it is not there.

    Raises:
        BadDocument, UnsupportedKind: it cannot be believed.
    """
    path = layout.event(str(ref.site), ref.number, name=Event.STARTED, attempt=attempt)
    stored = actor.documents.read(path, EventDoc)
    return None if stored is None else Started(stored.doc.dataset_root)


def require_fit(actor: Begun, seal: Seal, *, ref: PassRef, started: Started | None) -> None:
    """Refuse to seal a site pass that the lead would leave out.

    Raises:
        CommitmentMismatch: the data changed while the attempt trained.
        PinMismatch: it declares other pins than the run's.
        EgressRefused: its model is larger than may leave.
        ConfigError: no `started` event bound the attempt to its data.
        HookOutput: every other reason.
    """
    reason = unfit(seal, terms_of(actor, seal), ref=ref, started=started)
    if reason is None:
        return
    if reason.code is Code.COMMITMENT:
        raise CommitmentMismatch(
            f"pass {ref.number}: the data changed while it trained; it was not sealed",
            hint="Let nothing write into the data folder during a pass; then run again: a new attempt.",
        )
    if reason.code is Code.NOT_BOUND:
        raise ConfigError(
            f"pass {ref.number}: {reason}",
            hint=f'{_NOT_SEALED}Call emit({ref.number}, "started") before the training begins.',
        )
    if reason.code is Code.SIZE:
        hint = "Make the model smaller or raise transfer.max_file_mb at every site."
        raise EgressRefused(f"pass {ref.number}: {reason}", hint=hint)
    if reason.code is Code.PINS:
        raise PinMismatch(f"pass {ref.number}: {reason}", hint=_NOT_SEALED + "Look at [pins].")
    raise HookOutput(
        f"pass {ref.number} would not be admitted: {reason}",
        hint=_NOT_SEALED + "Correct the hook or the settings, then run again.",
        hook="train",
        kind="HookOutput",
    )
