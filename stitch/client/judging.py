"""The lead's look back over its own globals: which was the best, and whether patience is used up."""

from __future__ import annotations

from stitch.client.scores import ScoreVerbs
from stitch.errors import ProtocolError
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed
from stitch.rounds import Best, Goal
from stitch.wire import BestGlobal, RoundRecord, Seal, sha256


class JudgingVerbs(ScoreVerbs):
    """`best_global`, and the early stop."""

    _records: dict[str, RoundRecord] | None = None  # by the hash of the seal that holds it
    _judged: tuple[int, BestGlobal | None] = (-1, None)

    @property
    def goal(self) -> Goal | None:
        """By what this run compares globals; None where it does not."""
        return Goal.of({"evaluation": self.settings.evaluation.facts})

    def best_global(self, pass_id: int | None = None) -> Best | None:
        """The best global so far, as the seals up to global `pass_id` tell; by default up to the newest here.

        The last one's own evaluation stands in no seal yet: `status` looks at that as well.
        """
        goal, numbers = self.goal, [ref.number for ref in self.mirror.passes(GLOBAL)]
        number = pass_id if pass_id is not None else max(numbers, default=-1)
        data = self.mirror.read(PassRef(number).seal) if goal is not None and number >= 0 else None
        if goal is None or data is None:
            return None
        return goal.best(goal.values(self._history(number, data)))

    def published_best(self, base: int | None) -> BestGlobal | None:
        """What orchestration says of it; looked up once a global."""
        if base is None or self.goal is None:
            return None
        if self._judged[0] != base:
            best = self.best_global(base)
            fields = {"pass": best.pass_id, "metric": best.metric, "value": best.value} if best else None
            self._judged = (base, BestGlobal.model_validate(fields) if fields else None)
        return self._judged[1]

    def judged(self, record: RoundRecord, base: Sealed) -> RoundRecord:
        """The record of the global after `base`, with the scores of that; it stops a run without patience."""
        record = record.model_copy(update={"evaluated": self.evaluated(base)})
        goal, number = self.goal, base.ref.number + 1
        if goal is None:
            return record
        values = goal.values({**self._history(base.ref.number, base.data), number: record})
        newest = number - 1 if goal.by == "evaluation" else number
        if newest not in values:
            text = f"nobody reported {goal.metric} of global {newest}: it is not compared with others"
            self.journal.note(GLOBAL, "warn", text=text, pass_id=number)
        if not goal.used_up(values):
            return record
        best = goal.best(values)
        assert best is not None  # noqa: S101  patience is used up by globals after the best one
        text = f"no better {best.metric} than {best.value:g} since global {best.pass_id}: the run ends here"
        self.journal.note(GLOBAL, "verdict", text=text, pass_id=number)
        return record.model_copy(update={"should_stop": True})

    def _history(self, number: int, data: bytes) -> dict[int, RoundRecord]:
        """The records of globals up to `number`, whose seal is `data`: each by the hash that the next names.

        A seal that neither the mirror nor the store has any more ends the look back.
        """
        known = self._records = self._records if self._records is not None else {}
        found: dict[int, RoundRecord] = {}
        digest = sha256(data)
        for one in range(number, -1, -1):
            record = known.get(digest)
            if record is None:
                held = data if one == number else self._seal_of(one, digest)
                record = Seal.parse(held, source=PassRef(one).seal).round if held is not None else None
            if record is None:
                text = f"global {one} cannot be read any more: it is not compared with others"
                self.journal.note(GLOBAL, "warn", text=text, pass_id=one)
                break
            known[digest] = found[one] = record
            digest = record.prev_metrics_sha256
        return found

    def _seal_of(self, number: int, digest: str) -> bytes | None:
        held = self.mirror.read(PassRef(number).seal)
        if held is not None and sha256(held) == digest:
            return held
        try:
            stored = self.passes.read_seal(PassRef(number))
        except ProtocolError:
            return None
        return stored.data if stored is not None and stored.sha256 == digest else None
