"""With noise at the lead, what sites gave is told once: a second draw over it would be a second release."""

from __future__ import annotations

from stitch import layout
from stitch.client.record import RecordVerbs
from stitch.errors import PrivacyError
from stitch.layout import PassRef, What
from stitch.rounds import Attempt
from stitch.sync.documents import Stored
from stitch.wire import Verdict


def require_first_draw(client: RecordVerbs, now: Attempt, *, verdict: Stored[Verdict]) -> None:
    """Before noise is drawn: no noised sum over any of these passes lies in the store.

    One may: a lead that died between its model and its seal left it, and its mirror, which has the candidate,
    was lost or is another machine's. Whoever reads both sums knows more than was charged for.

    Args:
        client: the lead's.
        now: the attempt under way.
        verdict: that closed it.

    Raises:
        PrivacyError: one does.
    """
    if client.settings.privacy.mode != "central":
        return
    ref, sent = PassRef(now.pass_id), []
    for entry in client.lanes.list(f"{ref.folder}/"):
        key = layout.parse(entry.key)
        if key is not None and key.what is What.MODEL:
            sent.append(entry.modified)
    if not sent:
        return
    told = set[str]()
    for attempt in range(now.attempt):  # each may have had its candidate, whatever ended it
        earlier = client.documents.read(layout.verdict(now.pass_id, attempt), Verdict)
        told |= {one.metrics_sha256 for one in (earlier.doc.inputs if earlier is not None else ())}
    # Two times of one store (law 6), whose clock may have been put back between them: where no attempt
    # before was closed, there is no other that the sum could be of.
    if not told or max(sent) >= verdict.entry.modified:
        told |= {one.metrics_sha256 for one in verdict.doc.inputs}
    again = sorted(one.site for one in verdict.doc.inputs if one.metrics_sha256 in told)
    if again:
        raise PrivacyError(
            f"global {now.pass_id} lies in the store with its noise, unsealed: to draw again would tell "
            f"the same passes of {', '.join(again)} a second time",
            hint="Run the lead where its stitch_store was; else ask each of them for a new pass: "
            "clif-stitch sites redo SITE.",
        )
