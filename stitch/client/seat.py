"""One lane's seat in this process: the lease, and the heart that beats for it."""

from __future__ import annotations

from collections.abc import Callable

from stitch.clock import Clock
from stitch.errors import BadDocument, LaneLost, StitchError
from stitch.mirror import Mirror
from stitch.sync.documents import Documents
from stitch.sync.heart import Heart
from stitch.sync.lease import Holder, Identity, Lease
from stitch.wire.documents import Liveness


class Seat:
    """Claims a lane, keeps it by beating, gives it back.

    Args:
        lane: "global" or "sites/<id>".
        documents, mirror, clock: this actor's.
        identity: who claims.
        take_over: claim although somebody seems to hold it.
        on_trouble: told of a term that was passed over, and of every beat that failed; a `LaneLost` ends
            the beating.
        heart: makes what beats; `Heart` has a thread of its own.
    """

    def __init__(
        self,
        lane: str,
        *,
        documents: Documents,
        mirror: Mirror,
        clock: Clock,
        identity: Identity,
        take_over: bool,
        on_trouble: Callable[[StitchError], None],
        heart: Callable[..., Heart] = Heart,
    ) -> None:
        self.lane = lane
        self._lease = Lease(
            lane,
            documents=documents,
            mirror=mirror,
            clock=clock,
            identity=identity,
            take_over=take_over,
            tell=lambda text: on_trouble(BadDocument(text)),
        )
        self._heart = heart(self._lease, identity.interval_s, on_trouble=on_trouble)

    @property
    def term(self) -> int:
        """The number of our term; 0 while the lane is not ours."""
        return self._lease.term

    def take(self) -> Holder | None:
        """Hold the lane and beat; None on success, else who holds it.

        Raises:
            LaneLost: it was ours and is not any more.
        """
        if self._lease.lost:
            raise LaneLost(f"another process holds the lane {self.lane} now")
        holder = self._lease.acquire()
        if holder is None:
            self._heart.start()
        return holder

    def lock_here(self) -> bool:
        """Keep other processes of this machine out of the lane, without claiming it in the store."""
        return self._lease.lock_here()

    def still(self) -> None:
        """Look whether the lane is ours.

        Raises:
            LaneLost: it is not.
        """
        self._lease.still()

    def tell(self, state: Liveness, pass_id: int | None) -> None:
        """What the next beats say."""
        self._heart.tell(state, pass_id)

    def beat(self, state: Liveness, pass_id: int | None) -> None:
        """Beat once, now."""
        self._heart.tell(state, pass_id)
        self._lease.beat(state, pass_id)

    def leave(self) -> None:
        """Stop beating and release the lane, as far as the store lets us say so."""
        self._heart.stop()
        self._lease.release()
