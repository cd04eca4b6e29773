"""What if: globals made again from stored inputs, without a site or with another hook, beside the run.

A first-order what-if. The sites' passes are those that were trained from the run's own globals, so each
round is made again by itself, from its own base: what a missing site would have changed in the *training*
of later rounds does not show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stitch import layout
from stitch.errors import ConfigError
from stitch.files import disk, write_file
from stitch.layout import PassRef
from stitch.proof.transcript import Link, Transcript
from stitch.proof.workbench import Recipe, Workbench
from stitch.views.replayed import Replayed

KIND = "stitch.replay/1"
"""Of the report beside each model; it is no seal, and no protocol document."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Makes globals again into a folder of their own.

    Attributes:
        transcript: the run's documents; their chain is checked on the way.
        bench: runs the hook.
        to: the folder; it must not exist.
        without: the site to leave out; "" leaves out nobody.
        aggregate: the other hook, for the report; "" is the project's own.
        first: the first round to make again.
    """

    transcript: Transcript
    bench: Workbench
    to: Path
    without: str = ""
    aggregate: str = ""
    first: int = 1

    def check(self) -> None:
        """Refuse what cannot be asked of this run; nothing has been made.

        Raises:
            ConfigError: no such round or site, or the folder is there already.
        """
        record = self.transcript
        if not 1 <= self.first <= record.last:
            newest = f"its rounds are 1 to {record.last}" if record.last > 0 else "no round is closed yet"
            raise ConfigError(f"there is no round {self.first} in this run: {newest}", hint="Choose --from.")
        if self.without and self.without not in record.sites:
            there = ", ".join(record.sites)
            raise ConfigError(f"{self.without} is no site of this run", hint=f"Its sites are {there}.")
        hidden = ", ".join(site for site in record.sites if not record.can_read(site))
        if hidden:
            raise ConfigError(
                f"no store for {hidden} is configured here",
                hint="Run it where every lane can be read: at the lead, or with an auditor's tokens.",
            )
        if self.to.exists():
            raise ConfigError(f"{self.to} is there already", hint="Remove it, or choose another --to.")

    def run(self) -> Iterator[Replayed]:
        """Round after round, from `first` to the last global that counts.

        Raises:
            ProtocolError: a document or an input does not hold.
            HookError: the hook failed.
        """
        self.check()
        for link in self.transcript.links():
            if link.number >= self.first:
                yield self._remake(link)

    def _remake(self, link: Link) -> Replayed:
        record, number, seal = self.transcript, link.number, link.seal.doc
        wanted = [one for one in link.record.inputs if one.site != self.without]
        kept = tuple(one.site for one in wanted)
        if sum(one.n_samples for one in wanted) == 0:
            return Replayed(number, (), 0, {}, "", dict(seal.metrics), seal.model_sha256)
        folder = self.to / layout.pass_name(number)
        with disk(folder):
            folder.mkdir(parents=True)
        refs = []
        for one in wanted:
            ref, found = record.find(one, link)
            record.chain.check_input(one, found, number=number)
            refs.append((ref, found.sha256))
        base = (PassRef(number - 1), record.chain.globals[number - 1].sha256)
        log, keep = folder / "aggregate.log", folder / "model"
        made = self.bench.make(Recipe(number, base, refs, log, keep=keep, bases=record.bases(number, refs)))
        result = made.result
        done = Replayed(
            number,
            kept,
            result.n_samples,
            dict(result.metrics),
            made.model_sha256,
            dict(seal.metrics),
            seal.model_sha256,
        )
        with disk(folder):
            write_file(folder / "metrics.json", self._report(done), durable=False)
        return done

    def _report(self, done: Replayed) -> bytes:
        report = {
            "kind": KIND,
            "run_id": self.transcript.lanes.run_id,
            "pass_id": done.pass_id,
            "without": self.without or None,
            "aggregate": self.aggregate or None,
            "inputs": list(done.inputs),
            "n_samples": done.n_samples,
            "metrics": dict(done.metrics),
            "model_sha256": done.model_sha256,
            "run": {"metrics": dict(done.own_metrics), "model_sha256": done.own_sha256},
        }
        return (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def check_apart(to: Path, *others: Path) -> None:
    """Refuse a folder for replays that lies in the run, in the mirror or in the store.

    Raises:
        ConfigError: it does.
    """
    place = to.resolve()
    for other in others:
        there = other.resolve()
        if place == there or place.is_relative_to(there) or there.is_relative_to(place):
            raise ConfigError(
                f"{to} is not apart from {other}, which holds the run itself",
                hint="Choose a folder of its own with --to.",
            )
