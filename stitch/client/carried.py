"""What a global carries beside its model: the aggregation's own state, and the next pass's config.

Both are files that the hook may write. The state (an outer optimiser's velocity, say) is an input of the
next aggregation, so it is published, hashed and pulled like a model; the config goes into the seal itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from stitch import layout
from stitch.client.site import SiteVerbs
from stitch.errors import DigestMismatch, HookOutput, ProtocolError
from stitch.files import disk, file_sha256
from stitch.hooks.call import HookCall
from stitch.hooks.output import MOST_BYTES, MOST_KEYS, check_model
from stitch.layout import GLOBAL
from stitch.mirror import Mirror, Sealed
from stitch.wire import Attachment, Scalar, is_config_name

OUTER_STATE = "outer_state"
"""The attachment's name."""

_MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Carried:
    """What a hook left beside its model.

    Attributes:
        outer: the new state's file; None if the hook wrote none.
        outer_sha256: its hash.
        config: JSON scalars by name.
    """

    outer: Path | None = None
    outer_sha256: str | None = None
    config: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """As a seal lists it."""
        if self.outer is None or self.outer_sha256 is None:
            return ()
        name = layout.stored_name(OUTER_STATE, self.outer_sha256, ext=self.outer.suffix[1:])
        size = self.outer.stat().st_size
        return (Attachment(name=OUTER_STATE, file=name, sha256=self.outer_sha256, bytes=size),)


def read_carried(call: HookCall, mirror: Mirror | None = None) -> Carried:
    """What the hook of this call wrote to `outer_out_path` and `config_out_path`.

    Args:
        call: a hook run that ended well.
        mirror: remembers the state's hash, so that it is made once.

    Raises:
        HookOutput: the state is no file that may leave, or the config no JSON map of scalars.
    """
    outer, config = (call.optional.get(name) for name in ("outer_out_path", "config_out_path"))
    said = _config(call, Path(config)) if isinstance(config, str) else {}
    path = Path(outer) if isinstance(outer, str) else None
    if path is None or not (path.exists() or path.is_symlink()):
        return Carried(config=said)
    check_model(replace(call, out_path=path), before=None)
    return Carried(path, mirror.digest(path) if mirror else file_sha256(path), said)


def forget_carried(call: HookCall) -> None:
    """Take away what a run of the hook wrote, before it runs once more."""
    for name in ("outer_out_path", "config_out_path"):
        written = call.optional.get(name)
        if isinstance(written, str):
            with disk(Path(written)):
                Path(written).unlink(missing_ok=True)


def outer_state(client: SiteVerbs, base: Sealed) -> Path | None:
    """The state that a global carries, verified; None if it carries none.

    Raises:
        DigestMismatch: it is not there whole, or its bytes are not those of the seal.
    """
    listed = next((one for one in base.seal.attachments if one.name == OUTER_STATE), None)
    if listed is None:
        return None
    path = client.passes.attachment(base, listed)
    if path is None:
        raise DigestMismatch(
            f"global {base.ref.number} is sealed, but its {OUTER_STATE} is not whole in the store",
            hint="A synced folder may still be copying: the same command goes on by itself.",
        )
    return path


def bring_back(client: SiteVerbs) -> None:
    """Fetch the attachments that this mirror lacks of the globals it has (law 4): the lead's whole record.

    One that cannot be believed stops nobody: the round that needs it refuses it by name.
    """
    for ref in client.mirror.passes(GLOBAL):
        sealed = client.mirror.sealed(ref)
        for one in sealed.seal.attachments if sealed is not None else ():
            if sealed is None or client.mirror.path(f"{ref.folder}/{one.file}").is_file():
                continue
            try:
                found = client.passes.attachment(sealed, one)
            except ProtocolError as error:
                text = f"{one.file} of global {ref.number} is not brought back: {error}"
                client.journal.note(GLOBAL, "warn", text=text, pass_id=ref.number)
                continue
            if found is not None:
                text = f"brought {one.file} of global {ref.number} back into the mirror"
                client.journal.note(GLOBAL, "repair", text=text, pass_id=ref.number)


def _config(call: HookCall, path: Path) -> dict[str, Scalar]:
    """The next pass's config, bounded: every site reads it in the seal."""
    try:
        if path.stat().st_size > MOST_BYTES:
            _refuse(call, f"of more than {MOST_BYTES} bytes")
        given = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        _refuse(call, "that is no JSON")
    if not isinstance(given, dict) or len(given) > MOST_KEYS:
        _refuse(call, f"that is no map of at most {MOST_KEYS} values")
    for name, value in given.items():
        if not is_config_name(name) or name == "site":
            _refuse(call, f"with the name {name[:64]!a}")
        finite = not isinstance(value, float) or math.isfinite(value)
        small = not isinstance(value, int) or abs(value) < 2**63
        short = not isinstance(value, str) or (len(value) <= _MOST_TEXT and _whole(value))
        if not isinstance(value, bool | int | float | str) or not (finite and small and short):
            _refuse(call, f"whose {name[:64]!a} is no finite number, short text, true or false")
    return given


def _whole(text: str) -> bool:
    """Whether no half of a surrogate pair is left alone in it: such a text has no UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _refuse(call: HookCall, what: str) -> NoReturn:
    raise HookOutput(
        f"the {call.hook} hook wrote a config {what}",
        hint="Write one JSON map of numbers, texts, true or false to config_out_path (docs/hooks.md).",
        hook=call.hook,
        kind="HookOutput",
    )
