"""Admission: what a site pass must be before a round may use it. Values in, values out.

The same checks run at the site before it seals and at the lead before it uses a pass: what the lead
would leave out fails at the site first, where somebody can mend it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from stitch.layout import PassRef
from stitch.rounds.seeds import round_seed
from stitch.wire import Seal

MOST_ATTEMPTS = 9999
"""No site trains one pass more often; a larger number names no event that could be looked at."""

MOST_SAMPLES = 2**53
"""No site has more rows, as the check of what hooks return knows: larger counts could sum up to no count."""

NO_SAMPLES = "zero samples"
"""Why a pass that is fit has no part in a mean."""


class Code(StrEnum):
    """Why a pass is not admitted: a word for programs."""

    PLACE = "place"
    SETTINGS = "settings"
    SIZE = "size"
    METRICS = "metrics"
    SAMPLES = "samples"
    ZERO_SAMPLES = "zero_samples"
    BASE = "base"
    ROUND_SEED = "round_seed"
    PINS = "pins"
    NOT_COMMITTED = "not_committed"
    NOT_BOUND = "not_bound"
    COMMITMENT = "commitment"
    TRANSFORMS = "transforms"
    SIGNATURE = "signature"
    MODEL = "model"


class Reason(str):
    """One line for a person, with its code. It is text, since documents hold it as text."""

    __slots__ = ("code",)
    code: Code

    def __new__(cls, code: Code, text: str) -> Self:
        """A reason.

        Args:
            code: for programs.
            text: one line for people, ASCII, without anything that the site wrote freely.
        """
        reason = super().__new__(cls, text)
        reason.code = code
        return reason


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run and its chain ask of a site pass.

    Attributes:
        run_id, config_sha256, root_seed: as in the manifest.
        ext: the models' extension.
        max_bytes: the legal size of a model.
        chain: the SHA-256 of the model of each global of this chain, by number.
        pins: the SHA-256 of each pin that holds for the pass, by name.
        commit: every pass must commit to its data.
        transforms: what must have been done to its model before it was sealed.
    """

    run_id: str
    config_sha256: str
    root_seed: int
    ext: str
    max_bytes: int
    chain: Mapping[int, str]
    pins: Mapping[str, str] = field(default_factory=dict)
    commit: bool = False
    transforms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """What the `started` event of a pass's own training attempt declared; `root` is its dataset's."""

    root: str | None


def unfit(seal: Seal, terms: Terms, *, ref: PassRef, started: Started | None) -> Reason | None:
    """Why a site pass cannot be used; None when it can.

    Args:
        seal: the pass's own word.
        terms: the run's.
        ref: where the pass lies.
        started: the event of the seal's own training attempt, not the newest one; None when it is not there.
    """
    return (
        _envelope(seal, terms, ref)
        or _base(seal, terms)
        or _echo(seal, terms)
        or _transforms(seal, terms)
        or _commitment(seal, terms, started)
    )


def unsigned(signer: str, listed: str | None) -> Reason | None:
    """Why a pass of a signed run is not its site's own; None when it is.

    Args:
        signer: the fingerprint that its signature was made with; "" for none.
        listed: the fingerprint that the newest roster has for the site.
    """
    if not signer:
        return Reason(Code.SIGNATURE, "it is not signed")
    if listed is None:
        return Reason(Code.SIGNATURE, "the site has no key on the roster")
    if signer != listed:
        return Reason(Code.SIGNATURE, "it is signed by another key than the roster's")
    return None


def unused(seal: Seal) -> Reason | None:
    """Why a pass that is fit has no part in a mean: the lead alone asks, since it may leave the site."""
    return Reason(Code.ZERO_SAMPLES, NO_SAMPLES) if seal.n_samples == 0 else None


def _envelope(seal: Seal, terms: Terms, ref: PassRef) -> Reason | None:
    for name, found, wanted in (
        ("run", seal.run_id, terms.run_id),
        ("lane", seal.lane, ref.lane),
        ("pass", seal.pass_id, ref.number),
        ("model extension", seal.ext, terms.ext),
    ):
        if found != wanted:
            return Reason(Code.PLACE, f"it is of another {name}")
    if not 1 <= seal.attempt <= MOST_ATTEMPTS or seal.round is not None or ref.site is None:
        return Reason(Code.PLACE, "it is no site pass")
    if seal.config_sha256 != terms.config_sha256:
        return Reason(Code.SETTINGS, "it was made with other settings, or another hook contract")
    if not 0 < seal.model_bytes <= terms.max_bytes:
        return Reason(Code.SIZE, f"its model has {seal.model_bytes} bytes, allowed are {terms.max_bytes}")
    if seal.n_samples > MOST_SAMPLES:
        return Reason(Code.SAMPLES, f"its n_samples is no count of rows: {seal.n_samples}")
    if seal.attachments:  # nobody fetches them, and whoever proves the run could look for them in vain
        return Reason(Code.PLACE, "it lists files beside its model")
    if not all(math.isfinite(value) for value in seal.metrics.values()):
        return Reason(Code.METRICS, "a metric is not finite")
    return None


def _base(seal: Seal, terms: Terms) -> Reason | None:
    if seal.base_pass is None:
        return Reason(Code.BASE, "no base")
    if seal.base_sha256 is None or terms.chain.get(seal.base_pass) != seal.base_sha256:
        return Reason(Code.BASE, "its base is not on this chain")
    if seal.base_pass != seal.pass_id - 1:
        return Reason(Code.BASE, f"trained from global {seal.base_pass}, not {seal.pass_id - 1}")
    return None


def _echo(seal: Seal, terms: Terms) -> Reason | None:
    """What the site was told and must say again: the round's seed and the pins."""
    if seal.round_seed != round_seed(terms.root_seed, seal.pass_id):
        return Reason(Code.ROUND_SEED, "its round seed is not that of its round")
    if dict(seal.pins) != dict(terms.pins):
        return Reason(Code.PINS, "its pins are not those of the run")
    return None


def _transforms(seal: Seal, terms: Terms) -> Reason | None:
    """In a private run a model says that it was clipped and noised, or it is not used."""
    for name in terms.transforms:
        if name not in seal.transforms:
            return Reason(Code.TRANSFORMS, f"its seal does not say {name}")
    return None


def _commitment(seal: Seal, terms: Terms, started: Started | None) -> Reason | None:
    """The data that the attempt began with is the data that its seal declares."""
    if seal.dataset_root is None and not terms.commit:
        return None
    if started is None:
        return Reason(Code.NOT_BOUND, "the started event of its training is not there")
    if seal.dataset_root != started.root:
        return Reason(Code.COMMITMENT, "it declares other data than its training began with")
    if seal.dataset_root is None:
        return Reason(Code.NOT_COMMITTED, "it does not commit to its data")
    return None
