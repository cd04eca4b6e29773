"""The `[compression]` table as a value, with what it cannot stand beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stitch.config.bridge import require_tensors
from stitch.config.schema import StitchFile
from stitch.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Compression:
    """How a site's delta is made smaller before it leaves; the lead expands it before anything else.

    Attributes:
        kind: "int8": a byte a number, with one scale a tensor; "top_k": the largest numbers alone, the
            rest is kept at the site for the next pass; None leaves models whole.
        keep: of top_k, the part of each tensor that is sent.
    """

    kind: Literal["int8", "top_k"] | None = None
    keep: float = 0.01

    @property
    def name(self) -> str:
        """As a seal's `transforms` says it: `int8`, `top_k:0.01`."""
        return f"top_k:{self.keep:g}" if self.kind == "top_k" else "int8"


def read_compression(toml: StitchFile, *, where: str) -> Compression:
    """Check the table against the rest of the file.

    Raises:
        ConfigError: models that cannot be opened, a transform at the lead that would see what was
            rounded, or top_k in a private run.
    """
    table = toml.compression
    if table.kind is None:
        return Compression()
    require_tensors(toml.hooks.model_ext, table="compression", file=where)
    if toml.hooks.pre_aggregate is not None:
        raise ConfigError(
            f"{where}: hooks.pre_aggregate cannot be combined with [compression]",
            hint="It would see what was rounded already: align at the sites (pre_release).",
        )
    if table.kind == "top_k" and toml.privacy.mode is not None:
        raise ConfigError(
            f'{where}: compression.kind = "top_k" cannot be combined with privacy.mode',
            hint='Which numbers are the largest tells of the data, and what is kept was clipped: use "int8".',
        )
    return Compression(**table.model_dump(exclude_unset=True))
