"""The documents of a run as they were read, for whoever proves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stitch.errors import ProtocolError
from stitch.wire import Document, Verdict, sha256

D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Exhibit(Generic[D]):
    """A document as it was read.

    Attributes:
        path: relative to the run.
        doc: parsed.
        sha256: hash of its exact bytes.
    """

    path: str
    doc: D
    sha256: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """How the attempts of one round ended: verdicts by attempt, and those given up after their verdict."""

    verdicts: Mapping[int, Exhibit[Verdict]] = field(default_factory=dict)
    aborted: frozenset[int] = frozenset()

    def gave_up(self, attempt: int) -> bool:
        """Whether an attempt was aborted, by its verdict or after it."""
        decided = self.verdicts.get(attempt)
        return attempt in self.aborted or (decided is not None and decided.doc.verdict == "aborted")


def hold(path: str, checks: Iterable[tuple[bool, str]]) -> None:
    """Refuse the document at `path` with the words of the first check that is false.

    Raises:
        ProtocolError: one is.
    """
    for holds, what in checks:
        if not holds:
            raise ProtocolError(f"{path}: {what}")


def list_sha256(digests: Mapping[str, str]) -> str:
    """Hash of a list of files and their hashes, one `<sha256>  <path>` line each, sorted by path.

    The lines are those that `sha256sum` prints, so that nothing of ours is needed to make them again.
    """
    lines = (f"{digest}  {path}\n" for path, digest in sorted(digests.items()))
    return sha256("".join(lines).encode("utf-8"))
