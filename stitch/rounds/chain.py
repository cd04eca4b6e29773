"""What the documents of a run prove: each global against its past, its verdict, its roster and its inputs.

Pure: documents come parsed, with the hash of their bytes. Whoever reads them (`proof/transcript.py`) hashes
the models as well. Every refusal names the document that does not hold (docs/protocol.md, Proving a run).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from stitch import layout
from stitch.errors import BadDocument, DigestMismatch, ProtocolError
from stitch.rounds.best import used_up
from stitch.rounds.exhibits import Attempts, Exhibit, hold
from stitch.rounds.facts import Facts
from stitch.wire import Done, Input, Manifest, Roster, RoundRecord, Seal


class Chain:
    """The globals that hold so far, from the manifest on.

    Args:
        manifest: the root of the chain.
        rosters: all of them, by number.

    Raises:
        ProtocolError: the manifest's settings are not those of its hash, or a roster is missing.
    """

    def __init__(self, manifest: Exhibit[Manifest], rosters: Mapping[int, Exhibit[Roster]]) -> None:
        self.manifest = manifest
        self.facts = Facts(manifest)
        self.rosters = rosters
        self.globals: list[Exhibit[Seal]] = []
        self._used: dict[str, int] = {}
        self._newest: dict[str, int] = {}  # by site, of the passes that were used
        for number in range(1, max(rosters, default=0) + 1):
            if number not in rosters:
                raise ProtocolError(f"{layout.roster(number)} is not there, and a later roster is")

    def extend(self, seal: Exhibit[Seal], attempts: Attempts) -> RoundRecord:
        """Take the next global, if its seal, its verdict and its roster hold.

        Raises:
            ProtocolError: what does not; a `DigestMismatch` where a hash differs.
        """
        record = seal.doc.round
        if record is None:
            raise BadDocument(f"{seal.path}: a global without a round record")
        self._check_links(seal, record)
        self._check_settings(seal, record)
        if self.globals:
            _check_attempts(seal, record, attempts)
            self._check_roster(seal, record)
        elif record.inputs or record.verdict_sha256 is not None or record.attempt:
            raise ProtocolError(f"{seal.path}: global 0 has no inputs and no verdict")
        number = len(self.globals)
        for one in record.inputs:
            before = self._used.setdefault(one.metrics_sha256, number)
            if before != number:
                what = f"uses pass {one.pass_id} of {one.site}, which global {before} has used already"
                raise ProtocolError(f"{seal.path}: {what}")
            newest = self._newest.get(one.site, 0)
            if one.pass_id <= newest:
                what = f"uses pass {one.pass_id} of {one.site}, which pass {newest} had superseded"
                raise ProtocolError(f"{seal.path}: {what}")
            self._newest[one.site] = one.pass_id
        self.globals.append(seal)
        return record

    def check_input(self, wanted: Input, found: Exhibit[Seal], *, number: int) -> None:
        """Compare a site's seal with what global `number` says of it.

        Raises:
            ProtocolError: it is another one, or its base is not on this chain or too old.
        """
        seal, path = found.doc, found.path
        self.check_own(wanted, found, number=number)
        self.facts.check_config(found)
        base = seal.base_pass
        if base is None or not 0 <= base < number:
            raise ProtocolError(f"{path}: its base is no global before global {number}")
        if seal.base_sha256 != self.globals[base].doc.model_sha256:
            raise DigestMismatch(f"{path}: was trained from another model than global {base}")
        stale = number - 1 - base
        most = self.facts.max_staleness
        weight = self.facts.weight(stale)
        bounded = not isinstance(most, int) or stale <= most
        hold(
            path,
            (
                (seal.pass_id == base + 1, f"a pass from global {base} is pass {base + 1}"),
                (
                    wanted.staleness == stale,
                    f"global {number} calls it {wanted.staleness} behind, not {stale}",
                ),
                (
                    wanted.weight == weight or (weight is not None and _close(wanted.weight, weight)),
                    f"global {number} lets it weigh {wanted.weight}, not {weight}",
                ),
                (bounded, f"was {stale} behind when global {number} used it; at most {most} is allowed"),
                (seal.round_seed == self.facts.seed(seal.pass_id), "its round_seed is not that of its round"),
                (seal.dataset_root is not None or not self.facts.commits, "does not commit to its data"),
                *_says(seal, self.facts.site_transforms),
            ),
        )

    def check_own(self, wanted: Input, found: Exhibit[Seal], *, number: int) -> None:
        """Compare a site's seal with the line that global `number` holds on it, without its base.

        Raises:
            ProtocolError: it is another one.
        """
        seal, path = found.doc, found.path
        if found.sha256 != wanted.metrics_sha256:
            raise DigestMismatch(f"{path} is not the seal that global {number} names")
        said = (wanted.site, wanted.pass_id, wanted.attempt, wanted.n_samples)
        said_model = (wanted.model_sha256, wanted.model_file)
        hold(
            path,
            (
                (
                    said == (layout.lane_site(seal.lane), seal.pass_id, seal.attempt, seal.n_samples),
                    f"global {number} names another pass, attempt or n_samples",
                ),
                (
                    said_model == (seal.model_sha256, seal.model_file),
                    f"global {number} names another model",
                ),
            ),
        )

    def check_done(self, done: Exhibit[Done]) -> None:
        """Compare the end marker with the final global.

        Raises:
            ProtocolError: it names another one, or gives a reason that its seal contradicts.
        """
        doc, path = done.doc, done.path
        if doc.final_pass is None:
            hold(path, ((doc.final_metrics_sha256 is None, "no final pass, and a hash of it"),))
            return
        final = self.globals[doc.final_pass]
        if doc.final_metrics_sha256 != final.sha256:
            raise DigestMismatch(f"{path} does not name the seal of global {doc.final_pass}")
        record = final.doc.round
        last = doc.final_pass == self.facts.num_passes
        stopped = record is not None and record.should_stop
        hold(
            path,
            (
                (doc.reason != "completed" or last, "completed, before the last pass"),
                (doc.reason != "early_stopped" or stopped, "early_stopped, and its global does not say so"),
            ),
        )

    def used_up(self, record: RoundRecord, number: int | None = None) -> bool:
        """Whether patience ends the run with the global of this record, by default the next one."""
        records = {k: one.doc.round for k, one in enumerate(self.globals[:number])}
        records[len(self.globals) if number is None else number] = record
        return used_up(self.manifest.doc.settings, records)

    def _check_links(self, seal: Exhibit[Seal], record: RoundRecord) -> None:
        """The document before it, and the global that it replaces."""
        doc, number = seal.doc, len(self.globals)
        before = self.globals[-1] if self.globals else None
        if record.prev_metrics_sha256 != (before or self.manifest).sha256:
            raise DigestMismatch(f"{seal.path} does not follow {(before or self.manifest).path}")
        base = (before.doc.pass_id, before.doc.model_sha256) if before else (None, None)
        hold(
            seal.path,
            (
                (doc.pass_id == number, f"global {number} was expected here"),
                ((doc.base_pass, doc.base_sha256) == base, "its base is not the global before it"),
                (before is None or not before.doc.final, "follows a final global"),
            ),
        )

    def _check_settings(self, seal: Exhibit[Seal], record: RoundRecord) -> None:
        """Everything that follows from the manifest."""
        self.facts.check_config(seal)
        number, total = seal.doc.pass_id, self.facts.num_passes
        seed = self.facts.seed(number)
        last = isinstance(total, int) and number >= total
        hold(
            seal.path,
            (
                (record.seed == seal.doc.round_seed == seed, f"its seed is not that of round {number}"),
                (record.policy == self.facts.require, "closed by another policy than the run's"),
                (record.final == (record.should_stop or last), "its `final` contradicts the settings"),
                (record.should_stop or not self.used_up(record), "goes on, and patience is used up"),
                (record.attempt == seal.doc.attempt, "its attempt is not its round record's"),
                (record.roster in self.rosters, f"{layout.roster(record.roster)} is not there"),
                *_says(seal.doc, self.facts.global_transforms if number else ()),
            ),
        )

    def _check_roster(self, seal: Exhibit[Seal], record: RoundRecord) -> None:
        """Only sites of the roster in force; all of them where the policy waits for all."""
        roster = self.rosters[record.roster]
        before = self.globals[-1].doc.round
        used = [one.site for one in record.inputs]
        left_out = {one.site for one in record.excluded}
        expected = set(roster.doc.expected)
        stranger = ", ".join(sorted(set(used) - expected))
        missing = ", ".join(sorted(expected - set(used) - left_out))
        whole = not missing or record.policy != "all_expected"
        enough = len(used) >= self.facts.needed
        hold(
            seal.path,
            (
                (before is None or record.roster >= before.roster, "made under an older roster than before"),
                (used == sorted(set(used)), "its inputs are not one a site, in the order of their names"),
                (not left_out & set(used), "a site is both used and excluded"),
                (not stranger, f"uses {stranger}, not active in {roster.path}"),
                (whole, f"closed without {missing} of {roster.path}"),
                (enough, f"made of {len(used)} passes; a round needs {self.facts.needed}"),
            ),
        )


def _check_attempts(seal: Exhibit[Seal], record: RoundRecord, attempts: Attempts) -> None:
    """Its verdict closed over exactly its inputs, and every attempt before was given up (law 11)."""
    number = seal.doc.pass_id
    for attempt in range(record.attempt):
        if not attempts.gave_up(attempt):
            raise ProtocolError(f"{seal.path}: attempt {attempt} of round {number} was not aborted before")
    verdict = attempts.verdicts.get(record.attempt)
    if verdict is None:
        raise ProtocolError(f"{layout.verdict(number, record.attempt)} is not there")
    if verdict.sha256 != record.verdict_sha256:
        raise DigestMismatch(f"{verdict.path} is not the verdict that global {number} names")
    doc = verdict.doc
    hold(
        verdict.path,
        (
            (doc.verdict == "closed", f"aborted, and global {number} was made of it"),
            (doc.roster == record.roster, f"names another roster than global {number}"),
            (doc.inputs == record.inputs, f"names other inputs than global {number}"),
            (doc.excluded == record.excluded, f"excludes others than global {number}"),
        ),
    )


def _says(seal: Seal, transforms: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """In a private run a seal says what was done to its model."""
    return ((name in seal.transforms, f"does not say {name}") for name in transforms)


def _close(said: float | None, wanted: float) -> bool:
    """Two machines' powers may differ in their last digit."""
    return said is not None and math.isclose(said, wanted, rel_tol=1e-12)
