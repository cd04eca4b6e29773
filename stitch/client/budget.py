"""What a data set has given away so far: a journal on this machine, charged before anything leaves.

    privacy/<dataset>.jsonl

One line a release, over all runs: run, pass, noise multiplier, clip, hash of what was released. Each
line holds the hash of the one before. A pass that is pushed again as it is costs nothing, a new
training is a new release. A journal that knows less than what this site has published is not believed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from stitch.config.settings import Settings
from stitch.errors import PrivacyBudgetExceeded, PrivacyError
from stitch.files import disk, write_file
from stitch.rounds.accountant import Budget, rounded_up

_FIRST = "0" * 64
_PATIENCE_S = 60.0
_RESTORE = "Put the journal back from a copy; without it nobody knows what is left, and nothing may leave."
_GIVEN = "Nothing left. This site has given all it may: the lead drops it with `sites drop`."
_TOO_LITTLE_NOISE = (
    "Nothing left. No pass fits: a larger noise_multiplier; `clif-stitch privacy plan` finds it."
)


@dataclass(frozen=True, slots=True)
class Release:
    """One released model.

    Attributes:
        dataset: whose budget it is charged to.
        run, site_pass, attempt: which pass it was.
        sigma, clip: noise multiplier and clip.
        release_sha256: hash of the model file that leaves.
        at: this machine's time, for people.
    """

    dataset: str
    run: str
    site_pass: int
    attempt: int
    sigma: float
    clip: float
    release_sha256: str
    at: str

    def same(self, other: Release) -> bool:
        """Whether it is that very release: this file, as this pass.

        The same bytes as another pass are told once more where the noise is the lead's, which draws it anew.
        """
        place, there = (self.run, self.site_pass, self.attempt), (other.run, other.site_pass, other.attempt)
        return self.release_sha256 == other.release_sha256 and place == there


def budget_of(settings: Settings) -> Budget:
    """The budget of the `[privacy]` table."""
    privacy = settings.privacy
    return Budget(privacy.epsilon, privacy.delta, privacy.adjacency)


def noise_of(settings: Settings) -> float:
    """The noise multiplier of the run: the one that was given, or the least that its passes need."""
    given = settings.privacy.noise_multiplier
    if given is not None:
        return given
    return rounded_up(budget_of(settings).noise(max(1, settings.num_passes)))


def plan_left(settings: Settings, releases: Sequence[Release]) -> tuple[int, int]:
    """How many passes of this run still fit into the budget, and how many are left to make."""
    done = len({one.site_pass for one in releases if one.run == settings.run_id})
    wanted = max(0, settings.num_passes - done)
    spent = [one.sigma for one in releases]
    return budget_of(settings).passes(noise_of(settings), spent=spent, most=wanted), wanted


def journal_of(settings: Settings) -> BudgetJournal:
    """The journal of this site's data set."""
    privacy = settings.privacy
    return BudgetJournal(privacy.journal_dir or settings.root / "privacy", dataset=privacy.dataset)


class BudgetJournal:
    """The releases of one data set.

    Args:
        folder: where the journals lie; kept in the site's backups.
        dataset: which data.
    """

    def __init__(self, folder: Path, *, dataset: str) -> None:
        self.file = folder / f"{dataset}.jsonl"
        self._dataset = dataset

    def releases(self) -> list[Release]:
        """All releases so far, the first one first; none where there is no journal.

        Raises:
            PrivacyError: the journal cannot be read, or was altered.
        """
        return [release for _, release in self._lines()]

    def require_complete(self, published: Iterable[str], *, uploaded: Iterable[str] = ()) -> None:
        """The journals beside this one must know each of these releases, by the hash of its model.

        Args:
            published: the hashes.
            uploaded: beginnings of hashes, as stored models have them in their names.

        Raises:
            PrivacyError: it was deleted, put back from an old copy, or left on another machine.
        """
        known: set[str] = set()
        for file in (self.file, *sorted(self.file.parent.glob("*.jsonl"))):
            journal = BudgetJournal(self.file.parent, dataset=file.stem)
            known |= {release.release_sha256 for release in journal.releases()}
        lost = {*published} - known
        lost |= {name for name in uploaded if not any(one.startswith(name) for one in known)}
        if lost:
            what = "is missing" if not self.file.exists() else f"lacks {len(lost)} of this site's releases"
            raise PrivacyError(f"the privacy journal {self.file.name} {what}", hint=_RESTORE)

    def require_room(self, sigma: float, *, budget: Budget) -> None:
        """One more release with this noise must stay within the budget.

        Raises:
            PrivacyBudgetExceeded: it would not; says how far the budget went.
        """
        spent = [release.sigma for release in self.releases()]
        if not budget.holds([*spent, sigma]):
            raise PrivacyBudgetExceeded(
                f"one more pass would spend epsilon {budget.spent([*spent, sigma]):.4g} of "
                f"{budget.epsilon:g}: "
                f"{len(spent)} releases of data set {self._dataset} spent {budget.spent(spent):.4g} "
                f"(delta {budget.delta:g})",
                hint=_GIVEN if spent else _TOO_LITTLE_NOISE,
            )

    def charge(self, release: Release, *, budget: Budget) -> bool:
        """Write a release down, durably, before it leaves; False if it is there already.

        Raises:
            PrivacyBudgetExceeded: the budget does not hold it; nothing was written.
            PrivacyError: the journal was altered, or another process does not let go of it.
        """
        with self._locked():
            lines = self._lines()
            if any(known.same(release) for _, known in lines):
                return False
            self.require_room(release.sigma, budget=budget)
            before = lines[-1][0] if lines else b""
            prev = hashlib.sha256(before).hexdigest() if before else _FIRST
            entry = {"number": len(lines) + 1, "prev": prev, **asdict(release)}
            text = b"".join(line + b"\n" for line, _ in lines)
            with disk(self.file):
                write_file(self.file, text + json.dumps(entry).encode() + b"\n", durable=True)
        return True

    def _lines(self) -> list[tuple[bytes, Release]]:
        try:
            raw = self.file.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._altered(f"cannot be read: {error.strerror or error}") from None
        found: list[tuple[bytes, Release]] = []
        prev = _FIRST
        for number, line in enumerate(raw, start=1):
            release = self._parse(line, number=number, prev=prev)
            if release is None:
                raise self._altered(f"was altered or damaged at line {number}")
            found.append((line, release))
            prev = hashlib.sha256(line).hexdigest()
        return found

    def _parse(self, line: bytes, *, number: int, prev: str) -> Release | None:
        """One line; None if it is not the one that was written there."""
        try:
            entry = json.loads(line)
            in_place = entry.pop("number") == number and entry.pop("prev") == prev
            release = Release(**entry)
            sound = release.sigma > 0 and release.dataset == self._dataset
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return release if in_place and sound else None

    def _altered(self, what: str) -> PrivacyError:
        return PrivacyError(f"the privacy journal {self.file.name} {what}", hint=_RESTORE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two runs on one data set take turns."""
        with disk(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.file.with_suffix(".lock"))
        with disk(self.file):
            try:
                lock.acquire(timeout=_PATIENCE_S)
            except Timeout:
                raise PrivacyError(
                    f"another process holds the privacy journal {self.file.name}",
                    hint="Wait for the other run's upload, or end that process; then run again.",
                ) from None
        try:
            yield
        finally:
            lock.release()
