"""Pins: files that every site must have with exactly the bytes agreed on (docs/protocol.md, Pins)."""

from __future__ import annotations

from pathlib import Path

from stitch.config.pins import Pin, pins_in_force
from stitch.config.settings import Settings
from stitch.errors import PinMismatch
from stitch.files import file_sha256


def pinned(settings: Settings, pass_id: int) -> dict[str, str]:
    """The pins in force for a pass, each compared with the bytes of its file, read anew.

    Args:
        settings: name them.
        pass_id: the pass.

    Returns:
        The SHA-256 of each file, by the pin's name, sorted.

    Raises:
        PinMismatch: a file is missing, cannot be read, or has other bytes.
    """
    wanted = pins_in_force(settings.pins, pass_id)
    return {name: _checked(settings.root, name, pin=wanted[name]) for name in sorted(wanted)}


def _checked(root: Path, name: str, *, pin: Pin) -> str:
    file = root / pin.path
    try:
        sha256 = file_sha256(file)
    except FileNotFoundError:
        raise PinMismatch(
            f"the pinned file {pin.path} is missing (pin {name})",
            hint="Get it from the lead: every site needs the same file at this place in its project.",
        ) from None
    except OSError as error:
        raise PinMismatch(
            f"the pinned file {pin.path} cannot be read: {error.strerror} (pin {name})",
            hint="It must be one readable file: look at its permissions.",
        ) from error
    if sha256 != pin.sha256:
        raise PinMismatch(
            f"the pinned file {pin.path} has sha256 {sha256[:12]}..., not {pin.sha256[:12]}... (pin {name})",
            hint="Get the agreed file from the lead. A git checkout may have changed its line ends.",
        )
    return sha256
