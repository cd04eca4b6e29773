"""What was done to a model before it was sealed, as its seal names it (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Iterable

PRE_RELEASE = "pre_release"
_CLIP = "clip:"
_GAUSSIAN = "gaussian:"


def clip_name(clip: float) -> str:
    """`clip:1`: the delta's L2 norm is at most this."""
    return f"{_CLIP}{clip:g}"


def noise_name(sigma: float) -> str:
    """`gaussian:4.245`: noise with this many times the clip as its standard deviation."""
    return f"{_GAUSSIAN}{sigma:g}"


def is_noised(transforms: Iterable[str]) -> bool:
    """Whether noise was drawn for a file with these: nobody can make its bytes again."""
    return any(name.startswith(_GAUSSIAN) for name in transforms)


def is_private(transforms: Iterable[str]) -> bool:
    """Whether a pass with these is charged: what was clipped is, wherever the noise comes."""
    return any(name.startswith(_CLIP) for name in transforms)
