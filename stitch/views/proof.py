"""What was proven of a run, as values; and as `clif-stitch verify` shows it: a table, and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from stitch.errors import StitchError
from stitch.views.render import table
from stitch.views.words import names, plain

KIND = "stitch.proof/1"
"""Fields may be added under this number; none is renamed, removed or given another meaning."""


@dataclass(frozen=True, slots=True)
class ProvenPass:
    """A global that holds.

    Attributes:
        summed: its `n_samples` is the sum of its inputs', where it has any; else the hook said it.
        inputs: the sites whose passes it was made of, all hashed but those in `unread`.
        unread: sites whose lane cannot be read from here: neither proven nor refuted (law 7).
        excluded: sites whose pass was there and was not used.
        overruled: an abort marker of its own attempt, which the seal overrules (law 2).
        hashed: bytes of models and attachments that were hashed.
        rerun: the aggregate hook made the same bytes again.
        noised: the aggregation drew noise, so nobody can make these bytes again.
    """

    pass_id: int
    attempt: int
    n_samples: int
    summed: bool
    model_sha256: str
    inputs: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    overruled: bool = False
    hashed: int = 0
    rerun: bool = False
    noised: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven of a run as a whole.

    Attributes:
        only: the one global whose bytes were hashed; None for all.
        finished: DONE's reason; None while there is no end marker.
        others: sealed site passes that no global used; hashed as well.
        unread: sites whose lane cannot be read from here.
        transcript_sha256: hash of the list of all sealed files and their hashes; None if not all were read.
        lead_key: fingerprint of the key that the lead signed with; None in a run that does not sign.
    """

    run_id: str
    only: int | None
    passes: tuple[ProvenPass, ...]
    finished: str | None
    others: int
    unread: tuple[str, ...]
    transcript_sha256: str | None
    lead_key: str | None = None

    @property
    def complete(self) -> bool:
        """Whether everything was readable."""
        return not self.unread


def passes_table(passes: Sequence[ProvenPass]) -> Table:
    """One line a global that holds: what it was made of, and what was checked."""
    grid = table("pass", "try", "n", "model", "holds", numbers=("pass", "try", "n"))
    for one in passes:
        grid.add_row(
            str(one.pass_id),
            str(one.attempt),
            str(one.n_samples),
            one.model_sha256[:12],
            plain(", ".join(_checked(one)), most=300),
        )
    return grid


def closing_lines(proof: Proof) -> Iterator[str]:
    """What the table cannot say: the end, the other passes, what was out of sight, the hash of all."""
    if proof.others:
        yield f"{proof.others} sealed site passes that no global used: hashed, and whole"
    if proof.unread:
        yield f"NOT checked, since no store is configured for them: {names(proof.unread)}"
    ended = "there is no end marker yet" if proof.finished is None else f"DONE: {plain(proof.finished)}"
    what = f"run {proof.run_id}" if proof.only is None else f"global {proof.only} of run {proof.run_id}"
    yield f"{what} holds; {ended}"
    if proof.lead_key is not None:
        yield f"every sealed document is signed; the lead's key is {proof.lead_key[:12]}..."
    if proof.transcript_sha256 is not None:
        yield "SHA-256 of all sealed files, to be noted elsewhere for --expect:"
        yield proof.transcript_sha256


def proof_json(
    run_id: str, passes: Sequence[ProvenPass], *, proof: Proof | None, error: StitchError | None
) -> str:
    """The outcome for machines; `error` is the first thing that does not hold."""
    found: dict[str, object] = {
        "kind": KIND,
        "run_id": run_id,
        "holds": error is None,
        "complete": proof is not None and proof.complete,
        "finished": proof.finished if proof else None,
        "passes": [dataclasses.asdict(one) for one in passes],
        "others": proof.others if proof else None,
        "unread": list(proof.unread) if proof else None,
        "transcript_sha256": proof.transcript_sha256 if proof else None,
        "lead_key": proof.lead_key if proof else None,
        "error": None if error is None else _error(error),
    }
    return json.dumps(found, indent=2, ensure_ascii=True) + "\n"


def _error(error: StitchError) -> Mapping[str, object]:
    return {
        "error": type(error).__name__,
        "exit_code": error.exit_code,
        "cause": str(error),
        "hint": error.hint,
    }


def _checked(one: ProvenPass) -> Iterator[str]:
    yield "chain, seed"
    if one.pass_id:
        seen = len(one.inputs) - len(one.unread)
        of = f" of {len(one.inputs)}" if one.unread else ""
        yield f"verdict, {seen}{of} inputs"
    yield "model"
    if one.rerun:
        yield "rerun"
    if one.noised:
        yield "noise, made once"
    if one.excluded:
        yield f"without {names(one.excluded)}"
    if one.unread:
        yield f"{names(one.unread)} not readable"
    if not one.summed:
        yield "n by the hook"
    if one.overruled:
        yield "its abort marker came too late"
