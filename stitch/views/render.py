"""A run's state as text for a terminal: ASCII, readable at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stitch.views.status import (
    Beat,
    BestPass,
    GlobalPass,
    Means,
    PassStatus,
    RunStatus,
    SitePass,
    SiteState,
    SiteStatus,
)
from stitch.views.words import clock_time, names, number, plain, span

_STYLES: Mapping[SiteState, str] = {
    SiteState.COMPLETED: "green",
    SiteState.TRAINING: "cyan",
    SiteState.FAILED: "bold red",
    SiteState.STALLED: "bold yellow",
    SiteState.UNREADABLE: "bold yellow",
    SiteState.NEVER_SEEN: "dim",
}

_RULED = box.Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)

_PASSES_SHOWN = 3
_NOTES = 40
_METRIC_COLUMNS, _METRIC_WIDTH = 4, 12


def console(file: TextIO | None = None, *, stderr: bool = False) -> Console:
    """A console for everything clif-stitch prints: no markup, no emoji, ASCII boxes on code page 1252."""
    return Console(file=file, stderr=stderr, markup=False, emoji=False, highlight=False, safe_box=True)


def table(*columns: str, numbers: tuple[str, ...] = (), title: str = "") -> Table:
    """An empty table in the one style of this project: ASCII, no outer frame."""
    grid = Table(
        box=_RULED,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title or None,
        title_justify="left",
    )
    for name in columns:
        right = name in numbers
        grid.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return grid


def render(status: RunStatus) -> RenderableType:
    """The whole view: head, sites, newest passes, and whatever a person must see to."""
    parts: list[RenderableType] = [*_head(status), "", _sites(status)]
    if status.passes:
        parts += ["", _passes(status)]
    notes = list(_notes(status))
    if notes:
        parts += ["", *notes]
    return Group(*parts)


def _head(status: RunStatus) -> Iterator[Text]:
    of = f" of {status.num_passes}" if status.num_passes is not None else ""
    newest = "none yet" if status.newest_global is None else f"pass {status.newest_global}"
    yield Text(
        f"run {status.run_id}: {status.phase}, pass {status.current_pass}{of}; newest global: {newest}"
    )
    where = plain(status.source.place)
    if status.source.kind == "mirror":
        yield Text(f"read from this machine's mirror {where}: {plain(status.source.reason)}", style="yellow")
    else:
        at = clock_time(status.store_time) if status.store_time else "the store has no clock of its own"
        yield Text(f"store {where} ({at})", style="dim")
    yield _headline(status)
    if status.best is not None:
        yield Text(_best(status.best))


def _best(best: BestPass) -> str:
    counting = best.patience is not None and best.since <= best.patience  # a final global is judged as well
    of = f" of {best.patience}" if counting else ""
    since = f", none better in {best.since}{of} since" if best.since else ""
    return f"best global: pass {best.pass_id}, {plain(best.metric)} {number(best.value)}{since}"


def _headline(status: RunStatus) -> Text:
    """The one line that answers "what is going on?"."""
    if status.finished:
        done = status.finished
        final = "no global" if done.final_pass is None else f"final global: pass {done.final_pass}"
        line = f"finished at {clock_time(done.at)}: {plain(done.reason)}; {final}"
        return Text(line + (f", SHA-256 {done.model_sha256}" if done.model_sha256 else ""), style="green")
    if status.waiting:
        wait = status.waiting
        long = f" ({span(wait.seconds)})" if wait.seconds is not None else ""
        since = f" since {clock_time(wait.since)}{long}" if wait.since else ""
        until = f", until {clock_time(wait.deadline)}" if wait.deadline else ""
        again = f", attempt {wait.attempt + 1}" if wait.attempt else ""
        line = f"lead {status.lead} waits for: {names(wait.sites)}{since}{until}{again}"
        return Text(line, style="bold")
    if status.phase == "not begun":
        return Text(f"nothing is in the store yet: the lead {status.lead} has not begun")
    beat = status.lead_beat
    if beat is not None and beat.state == "released" and not beat.late:
        return Text(f"the lead {status.lead} is not running now (last beat {_age(beat)})", style="bold")
    return Text(f"the lead {status.lead} is at work{_lead_age(beat)}", style="bold")


def _lead_age(beat: Beat | None) -> str:
    if beat is None:
        return ""
    age = f"last beat {_age(beat)}"
    return f": no beat for {span(beat.age_s or 0)}; is it running?" if beat.late else f" ({age})"


def _sites(status: RunStatus) -> Table:
    grid = table("site", "state", "pass", "last beat", "note", numbers=("pass",))
    for site in status.sites:
        grid.add_row(
            site.site + (" (lead)" if site.is_lead else ""),
            Text(site.state.value, style=_STYLES.get(site.state, "")),
            "-" if site.pass_id is None else str(site.pass_id),
            _age(site.beat) if site.beat else "-",
            plain("; ".join(_remarks(site)), most=160),
        )
    return grid


def _age(beat: Beat) -> str:
    if beat.age_s is None:
        return f"{beat.at:%H:%M:%SZ}"
    return f"{span(beat.age_s)} ago" if beat.age_by == "store" else f"over {span(beat.age_s)}"


def _remarks(site: SiteStatus) -> Iterator[str]:
    if site.reason:
        yield site.reason
    if site.said_by == "lead":
        yield f"by the lead, at {site.as_of:%H:%M:%SZ}" if site.as_of else "by the lead"
    if site.hooks == "different":
        yield "runs other hooks than the lead"
    if site.settings == "different":
        yield "has other settings than the run"
    if not site.expected:
        yield "not expected in this pass"


def _passes(status: RunStatus) -> Table:
    """The newest passes, one line a seal; all of them are in --json and --csv."""
    lines = [line for item in status.passes[-_PASSES_SHOWN:] for line in _lines(item)]
    names_ = sorted({name for line in lines for name in line.metrics})
    if len(names_) > _METRIC_COLUMNS or any(len(name) > _METRIC_WIDTH for name in names_):
        names_ = []  # too wide: one column lists them by name
    grid = table("pass", "of", "base", "n", *names_, numbers=("pass", "base", "n", *names_))
    noted = any(line.note for line in lines) or not names_
    if noted:
        grid.add_column("")
    for line in lines:
        values = [number(line.metrics[name]) if name in line.metrics else "-" for name in names_]
        rest = " ".join([*([] if names_ else [_values(line.metrics)]), line.note]).strip()
        grid.add_row(line.label, line.of, line.base, line.n, *values, *([rest] if noted else []))
    return grid


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    of: str
    base: str
    n: str
    metrics: Mapping[str, float]
    note: str = ""


def _lines(item: PassStatus) -> Iterator[_Line]:
    label = str(item.pass_id)
    for own in item.sites:
        base = "-" if own.base_pass is None else str(own.base_pass)
        yield _Line(label, own.site, base, str(own.n_samples), own.metrics, _remark(own))
    if item.train_means is not None and len(item.train_means.sites) > 1:
        yield _mean(label, item.train_means)
    if item.global_ is not None:
        sealed = item.global_
        yield _Line(label, "GLOBAL", "-", str(sealed.n_samples), sealed.metrics, _remark(sealed))
    for score in item.evaluated:
        n = "-" if score.n_samples is None else str(score.n_samples)
        yield _Line(label, f"  at {score.site}", "-", n, score.metrics)
    if item.evaluation_means is not None and len(item.evaluation_means.sites) > 1:
        yield _mean(label, item.evaluation_means, indent="  ")
    if item.central is not None:
        n = "-" if item.central.n_samples is None else str(item.central.n_samples)
        yield _Line(label, "  central", "-", n, item.central.metrics)


def _mean(label: str, means: Means, *, indent: str = "") -> _Line:
    """n-weighted, over so many sites."""
    return _Line(label, f"{indent}mean of {len(means.sites)}", "-", str(means.n_samples), means.metrics)


def _remark(sealed: SitePass | GlobalPass) -> str:
    marks = [] if sealed.ready else ["its model is not there yet"]
    if isinstance(sealed, SitePass) and sealed.staleness and sealed.fate in ("used", "open"):
        marks.append(f"{sealed.staleness} behind")
    if isinstance(sealed, SitePass) and sealed.fate in ("excluded", "late"):
        why = plain(sealed.excluded, most=40)
        marks.append(f"{sealed.fate}: {why}" if why else sealed.fate)
    return "; ".join(marks)


def _values(metrics: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {number(value)}" for name, value in sorted(metrics.items()))


def _notes(status: RunStatus) -> Iterator[Text]:
    lead = status.lead_beat
    if lead is not None and lead.late and not status.finished:
        yield Text(
            f"the lead's process has not beaten for {span(lead.age_s or 0)}: re-run it at {status.lead}",
            style="bold yellow",
        )
    said = {site.reason for site in status.sites}
    for problem in [line for line in status.problems if line not in said][:_NOTES]:
        yield Text(f"problem: {plain(problem)}", style="yellow")
    for copy in status.conflicts[:_NOTES]:
        line = (
            f"conflict: {plain(copy.copy)} was set aside beside {plain(copy.key)}: two machines wrote one key"
        )
        yield Text(line, style="bold yellow")
