"""The processes of an in-process federation: each its client, its loops, its hooks, and how it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stitch import layout
from stitch.client import Client, Setup
from stitch.config.settings import Settings
from stitch.errors import BadDocument, DigestMismatch, DiskError, StitchError, Stopped, StoreError
from stitch.files import file_sha256
from stitch.hooks.inline import FunctionRunner
from stitch.loops.drive import Loop, loops_of
from stitch.rounds import Turn
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.store.retry import RetryingStore
from stitch.testing.faulty import Crashed, FaultyStore
from stitch.testing.lines import Line
from stitch.testing.machine import ProcessMirror, SteppedHeart

if TYPE_CHECKING:
    from stitch.testing.federation import Federation

_REQUEST_S = 0.05


class Before(Protocol):
    """See `Federation.before`."""

    def __call__(self, process: Process, what: str, *, key: str) -> None:
        """Anything may happen here."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a hook was given.

    Attributes:
        process: whose hook.
        hook: "train", "aggregate", "evaluate" or "evaluate_central".
        pass_id: the pass it was to make, or to score.
        inputs: SHA-256 of each model it could open, by site; the base's under "".
    """

    process: str
    hook: str
    pass_id: int
    inputs: Mapping[str, str]


class Process:
    """One operating-system process of a site: its client, its loops, and how it ends.

    Args:
        federation: what it is part of.
        settings: its site's.
        host: its machine.
        take_over: as `run --take-over`.
        one_turn: as `step`.

    Attributes:
        alive: whether it runs.
        frozen: its machine sleeps, no heart beats.
        finished: it saw the end of the run in all its loops.
        error: what ended it otherwise; None after a kill.
        said: what its last turn came to.
    """

    def __init__(
        self,
        federation: Federation,
        settings: Settings,
        *,
        host: str,
        take_over: bool = False,
        one_turn: bool = False,
    ) -> None:
        self.federation = federation
        self.site = settings.site
        self.host = host
        self.name = f"{self.site}@{host}#{len(federation.processes)}"
        self.alive = True
        self.frozen = False
        self.finished = False
        self.error: StitchError | None = None
        self.said = ""
        self.mirror = ProcessMirror(settings.mirror_dir)
        self._hearts: list[SteppedHeart] = []
        self._beating = self._ending = False
        self._depth = 0
        self._in_lease = 0
        clock = federation.clock_of(host)
        self.client = Client(
            settings,
            Setup(
                clock=clock,
                lanes=self._lanes(),
                runner=self._runner(),
                mirror=self.mirror,
                heart=partial(SteppedHeart, clock=clock, hearts=self._hearts),
                readers=1,
                host=host,
                take_over=take_over,
                one_turn=one_turn,
            ),
        )
        self.loops: dict[str, Loop] = {loop.name: loop for loop in loops_of(self.client)}
        self._done: set[str] = set()
        self._busy: set[str] = set()

    def __str__(self) -> str:
        return self.name

    # -- turns -------------------------------------------------------------------------------------

    def turns(self) -> list[Turn | None]:
        """One turn of each loop."""
        return [self.turn(name) for name in self.loops]

    def can_turn(self, name: str) -> bool:
        """Whether a loop is not done, not under way further up the stack, and waits for no other."""
        free = self.alive and not self._ending and not self.mirror.busy
        return free and name not in self._done | self._busy

    def turn(self, name: str) -> Turn | None:
        """One turn of a loop; None if it failed, or if it can take none."""
        if not self.can_turn(name):
            return None
        turn: Turn | None = None
        self._busy.add(name)
        with self._running():
            turn = self._step(name)
        self._busy.discard(name)
        if turn is not None and turn.state == "done":
            self._done.add(name)
            self.finished = self._done == self.loops.keys()
        self._end_if_over()
        return turn

    def _step(self, name: str) -> Turn | None:
        try:
            turn = self.loops[name].step()
        except Stopped:
            self.said = "stopped"
        except StitchError as error:
            self.said = f"{type(error).__name__}: {error}"
            passing = isinstance(error, StoreError | DigestMismatch | BadDocument)
            if not passing or isinstance(error, DiskError):
                self.error = self.error or error
                self.client.stop.set()
        else:
            self.said = turn.why
            return turn
        return None

    def beat(self) -> None:
        """Beat each lane that is due; while a loop looks at the lease, it keeps the mutex."""
        if self.frozen or self._beating or self._in_lease:
            return
        self._beating = True
        with self._running():
            for heart in self._hearts:
                heart.beat_if_due()
        self._beating = False
        self._end_if_over()

    def kill(self) -> None:
        """SIGKILL: nothing more is done; the system frees the file locks."""
        if self.alive:
            self.alive = False
            self.mirror.drop_locks()

    def interrupt(self) -> None:
        """Ctrl-C: the process leaves its lanes and ends, after the turn under way."""
        self.client.stop.set()
        self._end_if_over()

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """What runs inside dies of a `Crashed`."""
        self._depth += 1
        self.federation.stack.append(self)
        try:
            yield
        except Crashed:
            self.kill()
        finally:
            self.federation.stack.pop()
            self._depth -= 1

    def _end_if_over(self) -> None:
        if not self.alive or self._depth or not (self.finished or self.client.stop.is_set()):
            return
        self._ending = True
        self.error = self.error or self.client.lost
        with self._running():
            self.client.close()
        self.kill()

    # -- the line to the store, and the hooks --------------------------------------------------------

    def at(self, what: str, key: str) -> None:
        """A point where anything may happen.

        Raises:
            Crashed: this process died meanwhile.
        """
        in_lease = "/lease/" in key or "heartbeat" in key or what == "now"
        self._in_lease += in_lease
        if self.alive:
            self.federation.before(self, what, key=key)
        self._in_lease -= in_lease
        if not self.alive:
            raise Crashed(f"{self} is dead")
        self.federation.clock.advance(_REQUEST_S)

    def _lanes(self) -> Lanes:
        federation = self.federation
        store: Store = Line(FaultyStore(federation.record, federation.plan(self)), self.at)
        if federation.max_retries:
            store = RetryingStore(store, max_retries=federation.max_retries, backoff_seconds=0)
        return federation.lanes(store)

    def _runner(self) -> FunctionRunner:
        return FunctionRunner(
            {
                "train": self._train,
                "aggregate": self._aggregate,
                "evaluate": self._evaluate,
                "evaluate_central": self._evaluate_central,
            }
        )

    def _train(self, global_path: Path | None, out_path: Path, pass_id: int, **_: Any) -> dict[str, Any]:
        self._deliver("train", pass_id, inputs={"": global_path} if global_path else {})
        return self.federation.train(self.site, global_path, out=out_path)

    def _aggregate(self, site_dir: Path, out_path: Path, pass_id: int, **more: Any) -> dict[str, Any]:
        models = {path.parent.parent.name: path for path in sorted(site_dir.glob("*/pass_*/model.*"))}
        self._deliver("aggregate", pass_id, inputs=models)
        if self.client.settings.policy.buffered:
            onto, bases = more["global_path"], more["bases_dir"]
            return self.federation.aggregate_stale(
                site_dir, pass_id, bases_dir=bases, onto=onto, out=out_path
            )
        return self.federation.aggregate(models, pass_id, out=out_path)

    def _evaluate(self, global_path: Path, pass_id: int, **_: Any) -> dict[str, Any]:
        self._deliver("evaluate", pass_id, inputs={"": global_path})
        return self.federation.evaluate(self.site, global_path)

    def _evaluate_central(self, global_path: Path, pass_id: int, **_: Any) -> dict[str, Any]:
        self._deliver("evaluate_central", pass_id, inputs={"": global_path})
        return self.federation.evaluate(self.site, global_path)

    def _deliver(self, hook: str, pass_id: int, *, inputs: Mapping[str, Path]) -> None:
        hashes = {name: file_sha256(path) for name, path in inputs.items()}
        self.federation.deliveries.append(Delivery(self.name, hook, pass_id, hashes))
        self.at(hook, layout.pass_name(pass_id))
