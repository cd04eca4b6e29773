"""Admission: which verified site passes a round may use, and why others are left out."""

from __future__ import annotations

from collections.abc import Sequence

from stitch.layout import PassRef
from stitch.mirror import Mirror, Sealed


def admit(passes: Sequence[Sealed], mirror: Mirror) -> tuple[list[Sealed], dict[str, str]]:
    """Split verified passes into inputs, sorted by site id, and reasons for the others.

    A pass with zero samples weighs nothing; one whose base is no global of this chain would mix
    another model in.

    Args:
        passes: whole, hashed passes of one round.
        mirror: holds the globals of this chain.
    """
    inputs: list[Sealed] = []
    excluded: dict[str, str] = {}
    for sealed in sorted(passes, key=lambda one: str(one.ref.site)):
        reason = _reason(sealed, mirror)
        if reason:
            excluded[str(sealed.ref.site)] = reason
        else:
            inputs.append(sealed)
    return inputs, excluded


def _reason(sealed: Sealed, mirror: Mirror) -> str:
    seal = sealed.seal
    if seal.n_samples == 0:
        return "zero samples"
    if seal.base_pass is None:
        return "no base"
    base = mirror.sealed(PassRef(seal.base_pass))
    if base is None or base.seal.model_sha256 != seal.base_sha256:
        return "its base is not on this chain"
    if seal.base_pass != seal.pass_id - 1:
        return f"trained from global {seal.base_pass}, not {seal.pass_id - 1}"
    return ""
