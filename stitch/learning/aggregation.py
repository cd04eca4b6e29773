"""The aggregate hook's three lines: read the round's folder, check what came, let the strategy work."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from stitch.errors import BadModel, ConfigError, RoundError
from stitch.learning.check import unfit_model
from stitch.learning.strategy import FitResult, NotFinite, Round, Strategy, mean_metrics

_MOST_METRICS = 24  # of the sites' means in the global's seal, which has room for 64 numbers
_PATH = str | PathLike[str]


def aggregate(  # noqa: PLR0913  what a hook is given, by keyword
    *,
    site_dir: _PATH,
    out_path: _PATH,
    global_path: _PATH,
    strategy: Strategy,
    bases_dir: _PATH | None = None,
    outer_path: _PATH | None = None,
    outer_out_path: _PATH | None = None,
    round_seed: int = 0,
    max_norm: float | None = None,
) -> dict[str, float]:
    """Make the new global from the passes in `site_dir`.

    What cannot be counted (docs/strategies.md) is left out by name, in the metrics and the hook's log.

    Args:
        site_dir: `<site>/pass_NNN/` with `model.<ext>`, `metrics.json`, `round.json`.
        out_path: where the new global goes.
        global_path: the global being replaced.
        strategy: what to compute.
        bases_dir: `pass_NNN/model.<ext>` of every global that an input was trained from.
        outer_path: the strategy's state as the previous global left it; None if there is none.
        outer_out_path: where its new state goes.
        round_seed: the round's.
        max_norm: the largest norm of a site's change, if any.

    Returns:
        The hook's answer: `n_samples`, the sites' mean metrics, `excluded` and `excluded.<site>` if a site
        was left out, and what the strategy adds.

    Raises:
        RoundError: no site's pass can be counted; no global was written.
        BadModel: a file is not readable, or the global would not be finite.
        ConfigError: `max_norm` beside a strategy whose models have no norm.
    """
    check_bound(strategy, max_norm)
    results = read_results(site_dir, global_path=global_path, bases_dir=bases_dir)
    excluded: dict[str, str] = {}
    while True:
        with Round(
            results=[one for one in results if one.site not in excluded],
            global_path=Path(global_path),
            out_path=Path(out_path),
            outer_path=None if outer_path is None else Path(outer_path),
            outer_out_path=None if outer_out_path is None else Path(outer_out_path),
            seed=round_seed,
        ) as round_:
            excluded |= _unfit(round_, strategy=strategy, max_norm=max_norm)
            round_.results = [one for one in round_.results if one.site not in excluded]
            if not round_.results:
                raise nothing_left(excluded)
            try:
                metrics = strategy.aggregate(round_)
            except NotFinite as error:  # found on the way: begin again without this site
                excluded[error.site] = error.reason
                continue
            return _answer(round_.results, metrics, excluded)


def check_bound(strategy: Strategy, max_norm: float | None) -> None:
    """Refuse a bound of the change where nothing can be measured: it would leave out every site.

    Raises:
        ConfigError: the strategy's models are no tensors.
    """
    if max_norm is not None and not strategy.measurable:
        raise ConfigError(
            f"{type(strategy).__name__} has no max_norm: a change of trees has no norm",
            hint="Remove max_norm.",
        )


def read_results(site_dir: _PATH, *, global_path: _PATH, bases_dir: _PATH | None) -> list[FitResult]:
    """The round's passes, in the order of the bytes of their site ids; no model is opened.

    Raises:
        BadModel: a pass has no model file, or its base is not there.
    """
    folders = sorted(Path(site_dir).glob("*/pass_*"), key=lambda one: (one.parent.name.encode(), one.name))
    results = []
    for folder in folders:
        seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        note = folder / "round.json"
        said = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
        results.append(_result(folder, seal, said, places=(Path(global_path), bases_dir)))
    return results


def _result(
    folder: Path, seal: Mapping[str, Any], said: Mapping[str, Any], *, places: tuple[Path, _PATH | None]
) -> FitResult:
    site, (newest, bases_dir) = folder.parent.name, places
    path = folder / f"model{newest.suffix}"
    if not path.is_file():
        raise BadModel(f"the pass of {site} has no {path.name}", hint="All sites need one model_ext.")
    staleness, base = int(said.get("staleness", 0)), newest
    if staleness and bases_dir is not None:
        base = Path(bases_dir) / f"pass_{int(said['base_pass']):03d}" / path.name
    if (staleness and bases_dir is None) or not base.is_file():
        raise BadModel(
            f"the base of the pass of {site} is not there", hint="Let the hook take bases_dir and pass it on."
        )
    return FitResult(
        site=site,
        path=path,
        base_path=base,
        n_samples=int(seal["n_samples"]),
        metrics={name: float(value) for name, value in seal.get("metrics", {}).items()},
        staleness=staleness,
        weight=float(said.get("weight", 1.0)),
    )


def _unfit(round_: Round, *, strategy: Strategy, max_norm: float | None) -> dict[str, str]:
    """Who is left out, and why."""
    found = {}
    strategy.check_global(round_)  # outside of what follows: it is no site's fault
    for one in round_.results:
        try:
            reason = strategy.unfit(one, round_)
            if max_norm is not None and not reason:
                reason = unfit_model(one.parameters, one.base, n_samples=one.n_samples, max_norm=max_norm)
        except BadModel as error:
            reason = str(error)
        if reason:
            found[one.site] = reason
    return found


def nothing_left(excluded: Mapping[str, str]) -> RoundError:
    """What is raised where nobody can be counted; the reasons of those left out by site."""
    return RoundError(f"no pass can be counted: {_told(excluded) or 'there is none'}")


def tell_excluded(excluded: Mapping[str, str]) -> dict[str, float]:
    """Say in the hook's log who was left out and why; the metrics that say who."""
    if not excluded:
        return {}
    sys.stderr.write(f"left out: {_told(excluded)}\n")
    names = {f"excluded.{site}"[:64]: 1.0 for site in sorted(excluded)[:_MOST_METRICS]}
    return {"excluded": float(len(excluded)), **names}


def _told(excluded: Mapping[str, str]) -> str:
    return "; ".join(f"{site}: {reason}" for site, reason in sorted(excluded.items()))


def _answer(
    results: Sequence[FitResult], metrics: Mapping[str, float], excluded: Mapping[str, str]
) -> dict[str, float]:
    means = mean_metrics([(one.metrics, float(one.n_samples)) for one in results])
    kept = dict(list(means.items())[:_MOST_METRICS]) | dict(metrics) | tell_excluded(excluded)
    return {**kept, "n_samples": sum(one.n_samples for one in results)}
