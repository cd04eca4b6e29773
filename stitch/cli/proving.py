"""The work of `verify`: find the run, prove it, show what held and what did not."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import typer
from rich.console import Console

from stitch.cli.sources import record_lanes, where
from stitch.client.keys import signing_of
from stitch.clock import SystemClock
from stitch.config import Settings
from stitch.errors import ConfigError, DigestMismatch, StitchError
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.proof.workbench import Workbench
from stitch.store import parse_location
from stitch.store.lanes import Lanes
from stitch.views.proof import Proof, ProvenPass, closing_lines, passes_table, proof_json
from stitch.views.words import plain

_READERS = 4
"""Inputs of one global that are hashed side by side across a network; as many models lie on the disk."""


class Prover:
    """Proves the run of a project and prints the outcome.

    Args:
        settings: the project's; URLs may be missing.
        stop: ends retries and a running hook.
        out: where to print.
    """

    def __init__(self, settings: Settings, *, stop: threading.Event, out: Console) -> None:
        self._settings = settings
        self._stop = stop
        self._out = out

    def prove(self, *, only: int | None, rerun: bool, json: bool, expect: str) -> None:
        """Prove it all, or one global of it.

        Raises:
            ProtocolError: the first thing that does not hold; what held before is shown first.
            ConfigError, StoreError, HookError: as they come.
        """
        if expect and (only is not None or not re.fullmatch("[0-9a-f]{64}", expect)):
            raise ConfigError(
                "--expect takes the 64 hex digits that `verify` printed for the whole run, without --pass",
                hint="Copy the last line of an earlier `clif-stitch verify`.",
            )
        lanes, source = record_lanes(self._settings, clock=SystemClock(), stop=self._stop)
        if not json:
            self._out.print(plain(where(source)))
        proven: list[ProvenPass] = []
        proof: Proof | None = None
        failure: StitchError | None = None
        try:
            work = self._verification(lanes, only=only, rerun=rerun, proven=proven)
            proof = self._run(work, quiet=json)
            if source.kind == "mirror":
                proof = replace(proof, transcript_sha256=None)  # it has only what this machine needed
            _compare(proof, expect)
        except StitchError as error:
            failure = error
        if json:
            text = proof_json(lanes.run_id, proven, proof=proof, error=failure)
            typer.echo(text, nl=False)
        else:
            self._show(proven, proof, failed=failure is not None)
        if failure is not None:
            raise failure

    def _verification(
        self, lanes: Lanes, *, only: int | None, rerun: bool, proven: list[ProvenPass]
    ) -> Verification:
        signing = signing_of(self._settings, reading=True)
        record, bench = Transcript(lanes, stop=self._stop, signing=signing), None
        if rerun:
            manifest = record.chain.manifest.doc
            bench = Workbench(self._settings, lanes, manifest=manifest, stop=self._stop)
        logs = self._settings.runs_dir / "verify"
        urls = (self._settings.urls.global_, self._settings.urls.site)
        far = any(url and parse_location(url).kind == "azure" for url in urls)
        return Verification(
            record, only=only, bench=bench, logs=logs, proven=proven, readers=_READERS if far else 1
        )

    def _run(self, work: Verification, *, quiet: bool) -> Proof:
        """In a terminal, say how far it is: hashing a whole study takes hours."""
        if quiet or not self._out.is_terminal:
            return work.run()
        with self._out.status("reading the record", spinner="line") as line:
            work.on_global = lambda number, last: line.update(f"global {number} of {last}: hashing")
            return work.run()

    def _show(self, proven: list[ProvenPass], proof: Proof | None, *, failed: bool) -> None:
        if proven:
            self._out.print(passes_table(proven))
        if failed:
            self._out.print(f"{len(proven)} globals hold; the first thing that does not:")
        elif proof is not None:
            for line in closing_lines(proof):
                self._out.print(line)


def _compare(proof: Proof, expect: str) -> None:
    if expect and proof.transcript_sha256 is None:
        raise ConfigError(
            "--expect needs every sealed file, and not all can be read from here",
            hint="Use the stores, with a URL for every lane: at the lead, or with an auditor's tokens.",
        )
    if expect and proof.transcript_sha256 != expect:
        raise DigestMismatch(
            f"the sealed files hash to {proof.transcript_sha256}, not to what was noted earlier",
            hint="Files were altered, added or removed since. If the run went on, note the new hash.",
        )
