"""The result table of an example's README, as numbers that a run can be compared with."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from stitch.cli.demo_scores import SiteScores, scores
from stitch.cli.lookout import Lookout
from stitch.clock import SystemClock
from stitch.config.load import load_settings
from stitch.views.status import RunStatus

MEAN = "mean"
_HALF_A_DIGIT = 0.0006  # the third digit, and a hair: another processor adds up in another order


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a table.

    Attributes:
        site: whose; "mean" for the mean of all.
        what: "alone", "global", "patients", or "KB" for the final model's size.
        pass_id: of which global; None for the last one.
        value: as the README shows it.
    """

    site: str
    what: str
    pass_id: int | None
    value: float


def shown(readme: str, variant: str) -> list[Cell]:
    """The numbers that a README shows of one variant."""
    header, _, *rows = [_split(line) for line in readme.splitlines() if line.startswith("|")]
    read = _by_variant if header[0] == "variant" else _by_site
    return [cell for row in rows for cell in read(header, row, variant)]


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _by_site(header: list[str], row: list[str], variant: str) -> Iterator[Cell]:
    """A row a site; a heading "half-1: ..." begins the columns of a variant."""
    of = variant
    for heading, text in zip(header[1:], row[1:], strict=True):
        named, _, column = heading.rpartition(": ")
        of = named or of
        number = re.search(r"\bpass (\d+)", column)
        if of != variant or not text or column == "stays":
            continue
        what = "alone" if column.startswith("alone") else "global"
        what = "patients" if column in ("patients", "trained on") else what
        yield Cell(row[0], what, int(number[1]) if number else None, float(text))


def _by_variant(header: list[str], row: list[str], variant: str) -> Iterator[Cell]:
    """A row a variant; two columns a site, the first of which names it."""
    if row[0].partition(",")[0] != variant:
        return
    site = ""
    for heading, text in zip(header[1:], row[1:], strict=True):
        site = heading.removesuffix(" alone") if heading.endswith(" alone") else site
        if heading == "model":
            yield Cell(MEAN, "KB", None, float(text.removesuffix(" KB")))
        else:
            yield Cell(site, "alone" if heading.endswith(" alone") else "global", None, float(text))


def differing(cells: list[Cell], project: Path, *, noisy: float = 0.0) -> list[str]:
    """One line for each number that is not what came out of the run of a site's project.

    Args:
        cells: of one variant.
        project: the site's.
        noisy: by how much a score may differ, where noise is drawn anew each time.
    """
    settings = load_settings(project, {})
    status = Lookout(settings, clock=SystemClock(), stop=threading.Event()).look()
    ran = scores(status)
    lines = []
    for cell in cells:
        sites = list(ran) if cell.site == MEAN else [cell.site]
        value = fmean(_value(status, site, ran[site], cell) for site in sites)
        score = _HALF_A_DIGIT + (noisy if cell.what == "global" else 0.0)
        if abs(value - cell.value) >= (0.6 if cell.what == "KB" else score):
            lines.append(f"{cell} came out as {value:.4f}")
    return lines


def _value(status: RunStatus, site: str, found: SiteScores, cell: Cell) -> float:
    if cell.what == "patients":
        (count,) = {own.n_samples for one in status.passes for own in one.sites if own.site == site}
        return count
    if cell.what == "KB":
        return [one.global_.model_bytes for one in status.passes if one.global_ is not None][-1] / 1000
    if cell.what == "alone":
        assert found.alone is not None
        return found.alone
    assert status.finished is not None
    number = status.finished.final_pass if cell.pass_id is None else cell.pass_id
    assert number is not None
    return found.global_[number]
