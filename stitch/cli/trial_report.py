"""A trial for the person who must know what would leave."""

from __future__ import annotations

from collections.abc import Iterator

from stitch import layout
from stitch.cli.project import shown
from stitch.client.trial import Trial
from stitch.layout import Event
from stitch.views.words import names, number, plain, size


def report(trial: Trial) -> str:
    """What ran, what it returned, and each byte that `run` would send; ASCII lines."""
    return "\n".join(plain(text, most=400) for text in (*_ran(trial), "", *_leaving(trial)))


def _ran(trial: Trial) -> Iterator[str]:
    result = trial.result
    yield f"{trial.ref.folder}, from {trial.started_from}: {result.seconds:.1f} s; nothing was sent"
    yield f"log: {shown(trial.log)}"
    yield f"the hook returned n_samples {result.n_samples}" + (", should_stop" if result.should_stop else "")
    for name, value in sorted(result.metrics.items()):
        yield f"  {name} {number(value)}" + (
            "   stays here: not in [egress] metrics" if name in trial.withheld else ""
        )


def _leaving(trial: Trial) -> Iterator[str]:
    seal, folder = trial.seal, trial.ref.folder
    yield "`run` would send this and nothing else:"
    yield f"  {folder}/{seal.model_file}   {size(seal.model_bytes)}"
    yield f"    SHA-256 {seal.model_sha256}"
    yield f"  {folder}/metrics.json   about {size(len(seal.dump()))}"
    yield f"    n_samples {seal.n_samples}; metrics: {names(tuple(seal.metrics), most=64) or 'none'}"
    for one in seal.attachments:
        yield f"  {folder}/{one.file}   {size(one.bytes)}"
        yield f"    SHA-256 {one.sha256}"
    if trial.ref.site is not None:
        if trial.evaluates:
            key = layout.event(trial.ref.site, trial.ref.number - 1, name=Event.EVALUATED)
            yield f"  {key}   what the evaluate hook returns"
        for event, what in (
            (Event.STARTED, "pass number, time"),
            (Event.COMPLETED, "the same numbers again"),
        ):
            yield f"  {layout.event(trial.ref.site, trial.ref.number, name=event)}   {what}"
    else:
        yield "  manifest, roster, verdict, orchestration   names, hashes, reasons, times"
    yield "  join, lease and heartbeat documents   hashes, versions, this machine's name"
    yield f"to look at them: {shown(trial.folder / 'pass')}"
