"""A document must say the same as its path: a copied folder is no pass of this run."""

from __future__ import annotations

from stitch import layout
from stitch.errors import BadDocument
from stitch.layout import What
from stitch.wire import Document

_PASSES = frozenset({What.SEAL, What.VERDICT, What.ABORT, What.EVENT})
_SERIALS = {What.ROSTER: "number", What.TERM: "term"}


def check_place(document: Document, path: str, *, run_id: str) -> None:
    """Compare what a document names with where it lies.

    Args:
        document: as parsed.
        path: relative to the run.
        run_id: the run that was asked for.

    Raises:
        BadDocument: it names another run, lane, site, pass or number.
    """
    key = layout.parse(path)
    if key is None:
        return
    meant: dict[str, object] = {"run_id": run_id, "lane": key.lane, "site": layout.lane_site(key.lane)}
    if key.what in _PASSES:
        meant["pass_id"] = key.number
    if key.what in _SERIALS:
        meant[_SERIALS[key.what]] = key.number
    if key.what is What.EVENT:
        meant |= {"event": key.name, "attempt": key.attempt}
    if key.what in (What.VERDICT, What.ABORT):
        meant["attempt"] = key.attempt
    for name, place in meant.items():
        value = getattr(document, name, None)
        if value is not None and place is not None and value != place:
            raise BadDocument(f"{path}: names the {name} {str(value)[:60]!r}, its place says {place!r}")
