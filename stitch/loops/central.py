"""The lead's own score of each global, on its validation set: a loop beside the rounds.

It delays none of them, and looks at nothing but this machine's mirror until a global has no score yet. They
are scored one after the other; while one takes long the rounds go on, and the rest follows.
"""

from __future__ import annotations

from stitch import layout
from stitch.client import Client
from stitch.client.calls import evaluate_call
from stitch.errors import EgressRefused, HookError, ProtocolError
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed
from stitch.rounds import Turn
from stitch.wire import Done


class Central:
    """Turns of the lead's evaluation.

    Args:
        client: the lead's.
    """

    name = "central"

    def __init__(self, client: Client) -> None:
        self.client = client
        self._seen = -1  # the newest global that was scored, or failed, in this process

    def step(self) -> Turn:
        """One turn: score the oldest global without a score, or say what is waited for.

        A hook that fails leaves its global without a score and stops nothing; the next process tries
        it once more.
        """
        client = self.client
        data = client.mirror.read(layout.done())
        final = Done.parse(data, source=layout.done()).final_pass if data is not None else None
        numbers = sorted(ref.number for ref in client.mirror.passes(GLOBAL))
        for number in numbers:
            beyond = data is not None and (final is None or number > final)  # law 7: those do not count
            if number > self._seen and not beyond:
                return self._turn(number, settled=data is not None or number < numbers[-1])
        if data is not None:
            return Turn("done", "run complete: every global is scored", final, final_pass=final)
        return Turn("waiting", "waiting for a global to score", self._seen + 1)

    def _turn(self, number: int, *, settled: bool) -> Turn:
        """Score a global once it is published, by whoever holds the global lane (law 10).

        Args:
            number: the global.
            settled: what the store has under its number is not going to change.
        """
        client = self.client
        if not client.holds(GLOBAL) and client.mirror.read(layout.done()) is None:
            return Turn("waiting", "the lead's own scores wait for the global lane", number)
        if not client.documents.exists(layout.central(number)):
            sealed = self._published(PassRef(number))
            if sealed is None and not settled:
                return Turn("waiting", f"global {number} is not published yet", number)
            if sealed is not None:
                self._score(sealed)
            else:
                text = f"global {number} is not here as it was published: it has no central score"
                client.journal.note(GLOBAL, "warn", text=text, pass_id=number)
        self._seen = number
        return Turn("acted", f"looked at global {number}", number)

    def _published(self, ref: PassRef) -> Sealed | None:
        """The global as this mirror has it, if the store has the same."""
        sealed = self.client.mirror.sealed(ref)
        try:
            stored = self.client.passes.read_seal(ref) if sealed is not None else None
        except ProtocolError:
            return None
        return sealed if sealed is not None and stored is not None and sealed.data == stored.data else None

    def _score(self, sealed: Sealed) -> None:
        client, number, spec = self.client, sealed.ref.number, self.client.settings.hooks.evaluate_central
        assert spec is not None  # noqa: S101  `loops_of` starts this loop only where there is one
        stage = client.stage(PassRef(number, client.site, 2))  # 1 is of the site's own score
        call = evaluate_call(
            client.settings, stage, spec=spec, model=sealed.model, pass_id=number, hook="evaluate_central"
        )
        try:
            result = client.runner.run(call, stop=client.stop)
            client.emit_central(sealed, n_samples=result.n_samples, metrics=result.metrics)
        except (HookError, EgressRefused) as error:
            client.trail.last_error(error, pass_id=number, phase="evaluating", model_path=sealed.model)
            text = f"global {number} has no central score: {error}"
            client.journal.note(GLOBAL, "error", text=text, pass_id=number)
            return
        finally:
            client.drop_stage(stage.ref)
        shown = ", ".join(f"{name} {value:g}" for name, value in sorted(result.metrics.items()))
        text = f"global {number} on the lead's validation set: {shown}"
        client.journal.note(GLOBAL, "evaluate", text=text, pass_id=number, seconds=result.seconds)
