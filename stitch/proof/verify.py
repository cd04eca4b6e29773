"""Proving a run, or one global of it, from its files alone (docs/protocol.md, Proving a run)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stitch import layout
from stitch.client.carried import OUTER_STATE
from stitch.errors import ConfigError, DigestMismatch, ProtocolError
from stitch.layout import PassRef
from stitch.proof.scores import check_evaluated, check_train_means
from stitch.proof.transcript import Link, Transcript
from stitch.proof.workbench import Recipe, Workbench
from stitch.rounds import Goal
from stitch.rounds.exhibits import Exhibit, list_sha256
from stitch.rounds.transforms import is_noised
from stitch.views.proof import Proof, ProvenPass
from stitch.wire import Input, Seal


@dataclass
class Verification:
    """Checks a run in the order of its chain; stops at the first thing that does not hold.

    Attributes:
        transcript: the run's documents.
        only: the one global whose bytes are hashed; None hashes everything. The chain of documents is
            always walked whole, since a pass may be used only once in a run.
        bench: makes every global again as well; None does not.
        logs: where the hook's logs go: `pass_NNN/aggregate.log`.
        proven: what held so far.
        readers: how many inputs of one global are read side by side; each lies on this disk meanwhile.
        on_global: told of each global before its bytes are hashed, and of the last one's number.
    """

    transcript: Transcript
    only: int | None = None
    bench: Workbench | None = None
    logs: Path = Path()
    proven: list[ProvenPass] = field(default_factory=list)
    readers: int = 1
    on_global: Callable[[int, int], None] = lambda *_: None

    def run(self) -> Proof:
        """Prove it.

        Raises:
            ProtocolError: the first thing that does not hold; `proven` has what held before.
            ConfigError: the run has no such global.
            HookError: the aggregate hook failed when it was run again.
            StoreError: the store cannot be read.
        """
        record = self.transcript
        if self.only is not None and self.only > record.last:
            newest = f"its newest is {record.last}" if record.last >= 0 else "it has none yet"
            raise ConfigError(f"there is no global {self.only} in this run: {newest}", hint="Choose another.")
        for link in record.links():
            if self.only in (None, link.number):
                self.on_global(link.number, record.last)
                self.proven.append(self._prove(link))
        record.check_end()
        others = self._others() if self.only is None else 0
        unread = {site for one in self.proven for site in one.unread}
        if self.only is None:
            unread |= {site for site in record.sites if not record.can_read(site)}
        whole = self.only is None and not unread
        return Proof(
            run_id=record.lanes.run_id,
            only=self.only,
            passes=tuple(self.proven),
            finished=record.done.doc.reason if record.done else None,
            others=others,
            unread=tuple(sorted(unread)),
            transcript_sha256=list_sha256(record.digests) if whole else None,
            lead_key=record.signing.lead_key if record.signing else None,
        )

    def _prove(self, link: Link) -> ProvenPass:
        """One global: its own bytes, its inputs' seals and bytes, and its making."""
        record, said = self.transcript, link.record
        hashed = record.hash_files(PassRef(link.number), link.seal.doc)
        unread = [one.site for one in said.inputs if not record.can_read(one.site)]
        found = self._inputs(link, [one for one in said.inputs if one.site not in unread])
        refs = [(ref, seal.sha256) for ref, seal, _ in found]
        if not unread:
            goal = Goal.of(record.chain.manifest.doc.settings)
            check_train_means(link, [seal.doc for _, seal, _ in found], goal=goal)
        check_evaluated(link, record)
        hashed += sum(count for _, _, count in found) + self._late(link)
        noised = is_noised(link.seal.doc.transforms)
        again = self.bench is not None and link.number > 0 and not noised
        if self.bench is not None and again:
            if unread:
                hidden = ", ".join(unread)
                raise ConfigError(
                    f"global {link.number} cannot be made again: no store for {hidden} is configured",
                    hint="Run it where every lane can be read: at the lead, or with an auditor's tokens.",
                )
            self._remake(link, refs, bench=self.bench)
        return ProvenPass(
            pass_id=link.number,
            attempt=said.attempt,
            n_samples=link.seal.doc.n_samples,
            summed=not link.number or link.seal.doc.n_samples == sum(one.n_samples for one in said.inputs),
            model_sha256=link.seal.doc.model_sha256,
            inputs=tuple(one.site for one in said.inputs),
            unread=tuple(unread),
            excluded=tuple(one.site for one in said.excluded),
            overruled=said.attempt in link.attempts.aborted,
            hashed=hashed,
            rerun=again,
            noised=noised,
        )

    def _inputs(self, link: Link, wanted: Sequence[Input]) -> list[tuple[PassRef, Exhibit[Seal], int]]:
        """Each input's place, its seal, and how many bytes were hashed; across a network side by side.

        Raises:
            ProtocolError: the first, in the order of the record, that does not hold.
        """
        workers = min(self.readers, len(wanted))
        if workers < 2:
            return [self._input(link, one) for one in wanted]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            jobs = [pool.submit(self._input, link, one) for one in wanted]
            try:
                return [job.result() for job in jobs]
            finally:
                for job in jobs:
                    job.cancel()  # after a failure nothing more is begun

    def _input(self, link: Link, wanted: Input) -> tuple[PassRef, Exhibit[Seal], int]:
        record = self.transcript
        ref, seal = record.find(wanted, link)
        record.chain.check_input(wanted, seal, number=link.number)
        record.check_commitment(ref, seal)
        return ref, seal, record.hash_files(ref, seal.doc)

    def _late(self, link: Link) -> int:
        """Passes that came after their round closed: recorded, so they must be what was recorded."""
        record, hashed = self.transcript, 0
        for wanted in link.record.late:
            if record.can_read(wanted.site):
                ref, seal = record.find_late(wanted, link)
                record.chain.check_own(wanted, seal, number=link.number)
                hashed += record.hash_files(ref, seal.doc)
        return hashed

    def _remake(self, link: Link, refs: list[tuple[PassRef, str]], *, bench: Workbench) -> None:
        number, seal = link.number, link.seal.doc
        base = (PassRef(number - 1), self.transcript.chain.globals[number - 1].sha256)
        log = self.logs / layout.pass_name(number) / "aggregate.log"
        bases = self.transcript.bases(number, refs)
        made = bench.make(Recipe(number, base, refs, log, bases=bases))
        result = made.result
        outer = next((one.sha256 for one in seal.attachments if one.name == OUTER_STATE), None)
        if made.model_sha256 != seal.model_sha256 or made.outer_sha256 != outer:
            what = "" if made.model_sha256 != seal.model_sha256 else f"'s {OUTER_STATE}"
            other = made.hooks_sha256 is not None and made.hooks_sha256 != seal.hooks_sha256
            raise DigestMismatch(
                f"global {number}{what} made again from its inputs has other bytes than the stored one",
                hint="The hooks here are not those of the lead: check out the version that it ran."
                if other
                else "Either the aggregate hook is not deterministic here, or the record is false.",
            )
        if dict(made.config) != seal.next_config:
            raise ProtocolError(f"global {number} made again has another config than its seal")
        stop = result.should_stop or self.transcript.chain.used_up(link.record, number)
        if (result.n_samples, stop) != (seal.n_samples, link.record.should_stop):
            raise ProtocolError(
                f"global {number} made again says n_samples {result.n_samples}, should_stop "
                f"{stop}; its seal says {seal.n_samples}, {link.record.should_stop}"
            )

    def _others(self) -> int:
        """Sealed site passes that no global names: excluded, late, or of a round that is not closed yet."""
        record = self.transcript
        try:
            return sum(record.check_rest(site) for site in record.sites if record.can_read(site))
        except ProtocolError as error:
            raise type(error)(str(error), hint="No global used it: every global of the run holds.") from error
