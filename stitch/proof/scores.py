"""Proving the means that a global's seal carries: reckoned again from what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from stitch import layout
from stitch.errors import DigestMismatch, ProtocolError
from stitch.layout import Event
from stitch.proof.transcript import Link, Transcript
from stitch.rounds import Goal, weighted_means
from stitch.wire import EventDoc, Seal


def check_train_means(link: Link, inputs: Sequence[Seal], *, goal: Goal | None) -> None:
    """Compare a global's means of the training with its inputs' own seals.

    Args:
        link: the global.
        inputs: the seals of all its inputs.
        goal: by what this run compares its globals.

    Raises:
        ProtocolError: they differ, or globals are compared by them and they are not there.
    """
    said = link.record.train_means
    if said is None and inputs and goal is not None and goal.by == "train":
        raise ProtocolError(f"{link.seal.path}: has no train_means, by which this run compares its globals")
    if said is not None:
        _require_equal(link, said, [(seal.n_samples, seal.metrics) for seal in inputs], of="train_means")


def check_evaluated(link: Link, record: Transcript) -> None:
    """Compare a global's means of the evaluation with the events that it names.

    Sites whose lane cannot be read from here are unknown: nothing is reckoned then, and what can be
    read must still be what the global names.

    Raises:
        ProtocolError: an event or a mean is another one; as DigestMismatch, an event's bytes are.
    """
    said = link.record.evaluated
    if said is None:
        return
    path, names = link.seal.path, [one.site for one in said.sites]
    if said.pass_id != link.number - 1 or names != sorted(set(names)):
        raise ProtocolError(
            f"{path}: `evaluated` is not of global {link.number - 1}, one line a site in order"
        )
    strangers = ", ".join(sorted(set(names) - set(record.sites)))
    if strangers:  # no lane of theirs is looked at: whatever is said of them, nothing would contradict it
        raise ProtocolError(f"{path}: `evaluated` names {strangers}, who is on no roster")
    if not all(one.n_samples for one in said.sites):
        raise ProtocolError(f"{path}: `evaluated` names a score of no samples")
    model = record.chain.globals[said.pass_id].doc.model_sha256
    reports = []
    for one in said.sites:
        if not record.can_read(one.site):
            continue
        found = record.require(layout.event(one.site, said.pass_id, name=Event.EVALUATED), EventDoc)
        if found.sha256 != one.event_sha256:
            raise DigestMismatch(f"{found.path} is not the event that global {link.number} names")
        if (found.doc.model_sha256, found.doc.n_samples) != (model, one.n_samples):
            what = f"is of another model or n_samples than global {link.number} says"
            raise ProtocolError(f"{found.path} {what}")
        reports.append((one.n_samples, found.doc.metrics or {}))
    if len(reports) == len(said.sites):
        _require_equal(link, said.means, reports, of="evaluated.means")


def _require_equal(
    link: Link, said: dict[str, float], reports: Sequence[tuple[int, dict[str, float]]], *, of: str
) -> None:
    means = weighted_means(reports)
    names = [name for name in sorted({*said, *means}) if said.get(name) != means.get(name)]
    if names:
        name = names[0]
        raise ProtocolError(
            f"{link.seal.path}: {of} says {name} {said.get(name)}, its sites' own numbers {means.get(name)}",
            hint="The record is false, or was made by another rule than the protocol's (Means).",
        )
