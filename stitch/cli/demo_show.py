"""Runs a demo: builds it, starts the sites, shows them at work, and says what to look at."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from stitch.cli.demo_build import build, renew_tokens
from stitch.cli.demo_plan import OWN_STORE, Plan
from stitch.cli.demo_privacy import tell_spent
from stitch.cli.demo_processes import Ended, Processes, log_of
from stitch.cli.demo_scores import score_table, verdict, view
from stitch.cli.lookout import Lookout
from stitch.cli.project import quoted, shown, typed_in
from stitch.clock import SystemClock
from stitch.config import Settings, load_settings
from stitch.errors import ConfigError, StoreError
from stitch.layout import PassRef
from stitch.views.status import RunStatus
from stitch.views.words import plain

_NEAR_S, _FAR_S = 0.3, 1.0
_FAILED = 1


def perform(plan: Plan, out: Console, *, stop: threading.Event) -> int:
    """Run the demo to its end; returns the exit code.

    Raises:
        ConfigError: another demo lies in the folder, or nothing can be built there.
        StoreError: the store cannot be used.
    """
    plan.check()
    fresh = not plan.built
    if fresh:
        build(plan, say=lambda text: out.out(text, highlight=False))
    else:
        renew_tokens(plan)
    settings = _settings(plan)
    lookout = Lookout(settings, clock=SystemClock(), stop=stop)
    before = lookout.look()
    if fresh and before.phase != "not begun":
        raise ConfigError(
            f"the store already holds a run named {settings.run_id}",
            hint="Use an empty container or folder, or the --dir that began that run.",
        )
    if before.finished and _everybody_has(plan, before, settings):
        out.out("this demo is finished already", highlight=False)
        return _conclude(plan, out, before, settings=settings)
    out.out(f"{'starting' if fresh else 'continuing'} {len(plan.sites)} sites", highlight=False)
    with Processes(plan, os.environ) as processes:
        broken = _watch(plan, out, lookout, processes=processes, stop=stop)
    if broken is not None:
        return _report(plan, out, broken)
    if stop.is_set():
        out.out("stopped; the same command continues", highlight=False)
        return 0
    return _conclude(plan, out, lookout.look(), settings=settings)


def _settings(plan: Plan) -> Settings:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
    return load_settings(plan.home(plan.lead), environ)


def _watch(
    plan: Plan, out: Console, lookout: Lookout, *, processes: Processes, stop: threading.Event
) -> Ended | None:
    """Show the run until every process has ended well (None), one has failed, or `stop` is set."""
    every = _FAR_S if plan.store else _NEAR_S
    told = _Told(out)
    with Live(console=out, auto_refresh=False, transient=True) as live:
        while processes.alive and not stop.is_set():
            if (broken := processes.broken()) is not None:
                return broken
            try:
                status = lookout.look()
            except StoreError as error:  # the sites retry; so does the picture
                told.line(f"the store does not answer: {error}")
            else:
                if out.is_terminal:
                    live.update(view(status, alive=processes.alive), refresh=True)
                else:
                    told.changes(status)
            stop.wait(every)
    return processes.broken()


class _Told:
    """Lines for a console that is no terminal: each change once."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._said: set[str] = set()

    def line(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._out.out(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}  {plain(text)}", highlight=False)

    def changes(self, status: RunStatus) -> None:
        for item in status.passes:
            for sealed in item.sites:
                self.line(f"{sealed.site}  pass {item.pass_id} done, n_samples {sealed.n_samples}")
            if item.global_ is not None:
                self.line(f"global  pass {item.pass_id} sealed, SHA-256 {item.global_.model_sha256[:12]}")


def _everybody_has(plan: Plan, status: RunStatus, settings: Settings) -> bool:
    if status.finished is None or status.finished.final_pass is None:
        return status.finished is not None
    path = PassRef(status.finished.final_pass).mirror_model(settings.hooks.model_ext)
    return all((plan.home(s) / "stitch_store" / settings.run_id / path).is_file() for s in plan.sites)


def _report(plan: Plan, out: Console, broken: Ended) -> int:
    how = f"exit code {broken.code}" if broken.code > 0 else f"killed by signal {-broken.code}"
    out.out(f"the process of {broken.site} ended ({how}):", highlight=False)
    for text in broken.said:
        out.out(f"  {plain(text)}", highlight=False)
    out.out(f"its lines: {shown(log_of(plan, broken.site))}", highlight=False)
    out.out("the other sites were stopped; the same command continues", highlight=False)
    return broken.code if broken.code > 0 else _FAILED


def _conclude(plan: Plan, out: Console, status: RunStatus, *, settings: Settings) -> int:
    """The final scores, where everything lies, and what to look at."""
    if status.finished is None:
        out.out("every process ended, but the run has no end marker; run the demo again", highlight=False)
        return _FAILED
    out.print(score_table(status))
    home, final = plan.home(plan.lead), status.finished.final_pass
    out.print()
    out.print(Text(verdict(status)))
    if plan.privacy:
        tell_spent(home, out, shown=shown(home / "privacy"))
    lines = []
    if final is not None:
        model = (
            home / "stitch_store" / settings.run_id / PassRef(final).mirror_model(settings.hooks.model_ext)
        )
        lines += [
            f"final model, pass {final}:",
            f"  {shown(model)}",
            f"SHA-256 {status.finished.model_sha256}",
        ]
    lines += ["", f"Everything lies in {shown(plan.folder)}{os.sep}  Look at:"]
    if not plan.store:
        lines.append(f"  {OWN_STORE}/{settings.run_id}/   all that ever passed between the sites")
    lines += [
        f"  {plan.lead}/   one site's project: settings, hooks, made-up data",
        f"  {plan.lead}/output/final_no_phi/   a copy of every file that left that site",
        f"  {plan.lead}/runs/{settings.run_id}/run.log   what its process did, line by line",
        "Ask it yourself:",
        f"  cd {quoted(shown(home))}",
        f"  {typed_in(home)} status",
    ]
    for text in lines:
        out.out(text, highlight=False)
    return 0
