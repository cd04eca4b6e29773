"""What a demo shows: per pass the held-out AUROC of each site's model and of the global, and alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stitch.views.render import table
from stitch.views.status import RunStatus, SiteState
from stitch.views.words import names, plain

_COLUMNS = 7
_OWN, _BASE, _ALONE = "auroc", "base_auroc", "local_auroc"


@dataclass(frozen=True, slots=True)
class SiteScores:
    """One site's scores on its own held-out patients.

    Attributes:
        alone: of a model trained once on the site's data alone.
        own: of the site's pass model, by pass.
        global_: of the global model, by global pass.
    """

    alone: float | None = None
    own: Mapping[int, float] = field(default_factory=dict)
    global_: Mapping[int, float] = field(default_factory=dict)


def scores(status: RunStatus) -> dict[str, SiteScores]:
    """The scores that the sealed passes and the final evaluations hold."""
    alone: dict[str, float] = {}
    own: dict[str, dict[int, float]] = {site.site: {} for site in status.sites}
    global_: dict[str, dict[int, float]] = {site.site: {} for site in status.sites}
    for item in status.passes:
        for sealed in item.sites:
            metrics = sealed.metrics
            if _ALONE in metrics:
                alone.setdefault(sealed.site, metrics[_ALONE])
            if _OWN in metrics:
                own[sealed.site][item.pass_id] = metrics[_OWN]
            if _BASE in metrics and sealed.base_pass is not None:
                global_[sealed.site][sealed.base_pass] = metrics[_BASE]
        for score in item.evaluated:
            if _OWN in score.metrics:
                global_[score.site][score.pass_id] = score.metrics[_OWN]
    return {site: SiteScores(alone.get(site), own[site], global_[site]) for site in own}


def view(status: RunStatus, *, alive: tuple[str, ...]) -> RenderableType:
    """The live picture: who does what, and the scores so far."""
    of = f" of {status.num_passes}" if status.num_passes is not None else ""
    parts: list[RenderableType] = [Text(f"{status.phase}: pass {status.current_pass}{of}", style="bold"), ""]
    parts += [_work(status, alive), "", score_table(status)]
    return Group(*parts)


def _work(status: RunStatus, alive: tuple[str, ...]) -> Table:
    grid = table("site", "process", "state", "pass", "n", numbers=("pass", "n"))
    counts = {sealed.site: sealed.n_samples for item in status.passes for sealed in item.sites}
    styles = {SiteState.COMPLETED: "green", SiteState.TRAINING: "cyan", SiteState.FAILED: "bold red"}
    for site in status.sites:
        number = "-" if site.pass_id is None else str(site.pass_id)
        state = "done" if site.state is SiteState.COMPLETED else site.state.value
        grid.add_row(
            site.site + (" (lead)" if site.is_lead else ""),
            "running" if site.site in alive else "ended",
            Text(state, style=styles.get(site.state, "")),
            number,
            str(counts.get(site.site, "-")),
        )
    return grid


def score_table(status: RunStatus) -> RenderableType:
    """Held-out AUROC a site: alone, and per pass of its own model and of the global."""
    found = scores(status)
    passes = sorted({number for one in found.values() for number in (*one.own, *one.global_)})[-_COLUMNS:]
    if not passes:
        return Text("no score yet")
    headings = [str(number) for number in passes]
    grid = table("AUROC", "alone", "model", *headings, numbers=("alone", *headings))
    for site, one in found.items():
        grid.add_row(site, _score(one.alone), "site", *(_score(one.own.get(n)) for n in passes))
        grid.add_row("", "", "global", *(_score(one.global_.get(n)) for n in passes))
    return grid


def verdict(status: RunStatus) -> str:
    """One sentence: the final global beside what each site would have had alone."""
    found = scores(status)
    final = status.finished.final_pass if status.finished else None
    pairs = {
        site: (one.alone, one.global_[final])
        for site, one in found.items()
        if final is not None and one.alone is not None and final in one.global_
    }
    if not pairs:
        return ""
    better = tuple(site for site, (alone, together) in pairs.items() if together > (alone or 0.0))
    alone = sum(pair[0] or 0.0 for pair in pairs.values()) / len(pairs)
    together = sum(pair[1] for pair in pairs.values()) / len(pairs)
    won = (
        f"better than alone at {len(better)} of {len(pairs)} sites ({plain(names(better))})"
        if better
        else ("better than alone at no site")
    )
    return f"The final global scores {together:.3f} on average, a model alone {alone:.3f}: {won}."


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
