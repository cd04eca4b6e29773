"""RFC-0013's public surface over the loops: `Coordinator` and `Participant`.

Both are thin: every turn is one of `Lead` or `Local`, so that what holds for the command line holds
here, in one process over `memory:` as between hospitals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stitch.client import Client, Setup
from stitch.config import Settings
from stitch.errors import DigestMismatch, ProtocolError, RoundError
from stitch.layout import PassRef
from stitch.loops.drive import drive
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.rounds import RoundFiles, RoundState, Turn, derive
from stitch.wire import Seal


@dataclass(frozen=True, slots=True)
class GlobalState:
    """The newest global as everybody can verify it (RFC-0013, GlobalState).

    Attributes:
        pass_id: its number; -1 before the first.
        model: its file in this mirror, hash checked; None before the first.
        model_sha256: its content hash, "" before the first.
        round_seed: the seed of the round that begins with it.
        final: nobody trains from it.
    """

    pass_id: int
    model: Path | None
    model_sha256: str
    round_seed: int
    final: bool = False


class Coordinator:
    """Drives rounds and holds the canonical global model.

    Args:
        settings: the lead's.
        setup: stores, clocks and hooks where they are not those of the project folder.
    """

    def __init__(self, settings: Settings, *, setup: Setup | None = None) -> None:
        self.client = Client(settings, setup)
        self.client.require_lead()

    def run(self, num_rounds: int) -> None:
        """Drive rounds until so many more are closed, or the run is over.

        Each goes OPEN, COLLECTING, AGGREGATING, ALIGNING, COMMITTING, CLOSED, or ends ABORTED and is
        tried again. Blocks; call it again for further rounds.

        Raises:
            StitchError: what ended it; the global is what it was.
        """
        self.client.check_manifest()
        target = max(self.client.newest_global(), 0) + num_rounds
        drive(self.client, loops=[_Until(self.client, target)])

    def round_state(self) -> RoundState:
        """The state of the round under way, derived from the files."""
        client = self.client
        newest = client.newest_global()
        if client.done() is not None:
            return RoundState.CLOSED
        if newest < 0:
            return RoundState.OPEN
        attempt, verdict = client.attempt_of(newest + 1)
        roster = client.roster()
        expected = roster.expected_in(newest + 1, attempt.attempt)
        candidate = client.mirror.sealed(PassRef(newest + 1)) is not None
        ready = client.ready(attempt, expected)
        started = client.watch.started(expected, ready=ready)
        needed = client.settings.policy.min_participants
        files = RoundFiles(
            closed=verdict is not None, candidate=candidate, started=len(started), needed=needed
        )
        return derive(files)

    def global_state(self) -> GlobalState:
        """The newest global."""
        return global_state(self.client)


class Participant:
    """One site: joins, and trains one round at a time.

    Args:
        settings: the site's.
        setup: as for `Coordinator`.
    """

    def __init__(self, settings: Settings, *, setup: Setup | None = None) -> None:
        self.client = Client(settings, setup)
        self._local = Local(self.client)

    def join(self) -> GlobalState:
        """Publish what this site runs and recover the newest global, whatever was missed.

        Raises:
            ConfigError: the run was begun with other settings; the differing keys are named.
            DigestMismatch: the global was altered.
            ProtocolError: the lead has not begun the run.
        """
        if not self.client.check_manifest():
            raise ProtocolError("the lead has not begun the run", hint="Wait for the lead, then join again.")
        self.client.join()
        return global_state(self.client)

    def local_round(self, global_state: GlobalState, round_seed: int) -> Seal:
        """Train from a global and publish the pass.

        Args:
            global_state: what `join` or `Coordinator.global_state` gave.
            round_seed: the round's seed, as published.

        Returns:
            The seal of the pass.

        Raises:
            RoundError: another seed than the run's, or a newer global is there: nothing was trained.
            HookError: the train hook failed.
        """
        client = self.client
        number = global_state.pass_id + 1
        if round_seed != client.seed(number):
            raise RoundError(f"{round_seed} is not the seed of round {number}", hint="Join again.")
        newest = client.newest_global()
        if newest != global_state.pass_id:
            raise RoundError(
                f"global {global_state.pass_id} is not the newest, {newest} is", hint="Join again."
            )
        turn = self._local.step()
        sealed = client.mirror.sealed(client.attempt_of(number)[0].ref(client.site))
        if sealed is None and turn.state == "acted":  # it scored the global first
            turn = self._local.step()
            sealed = client.mirror.sealed(client.attempt_of(number)[0].ref(client.site))
        if sealed is None:
            raise RoundError(f"round {number} has no pass of {client.site}: {turn.why}", hint="Join again.")
        return sealed.seal

    def close(self) -> None:
        """Leave the lane."""
        self.client.close()


def global_state(client: Client) -> GlobalState:
    """The newest global of a run, fetched and verified.

    Raises:
        DigestMismatch: its bytes do not match its seal, or are not whole.
    """
    newest = client.newest_global()
    if newest < 0:
        return GlobalState(-1, None, "", client.seed(0))
    _, sealed = client.fetch_global(newest)
    if sealed is None:
        raise DigestMismatch(
            f"global {newest} is not whole in the store", hint="It may still be arriving: try again."
        )
    seal = sealed.seal
    return GlobalState(newest, sealed.model, seal.model_sha256, client.seed(newest + 1), seal.final)


class _Until(Lead):
    """The lead's loop up to a global."""

    def __init__(self, client: Client, target: int) -> None:
        super().__init__(client)
        self._target = target

    def step(self) -> Turn:
        """One turn; done when the target global is published."""
        newest = self.client.newest_global()
        if newest >= self._target and self.client.mirror.sealed(PassRef(newest)) is not None:
            return Turn("done", "run complete: rounds closed", newest, final_pass=newest)
        return super().step()
