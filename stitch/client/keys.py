"""This site's signing key: one file in the project, made once, never sent and never shown."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from stitch.config import Settings
from stitch.errors import ConfigError
from stitch.files import disk, disk_error
from stitch.sync.signing import Signing, Signs

FOLDER = "keys"
_FILE = "signing.pem"
_NOT_OURS = "Move it away, or bring back the file that `clif-stitch keys init` made."


def key_file(root: Path) -> Path:
    """Where a project's private key is."""
    return root / FOLDER / _FILE


def make_key(root: Path) -> Signs:
    """Make the key; the folder hides itself from git.

    Raises:
        ConfigError: there is one already; it was kept.
        DiskError: it could not be written.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only where a run signs
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  as above

    from stitch.rounds.signing import Signer  # noqa: PLC0415  as above

    file = key_file(root)
    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with disk(file):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        (file.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(
                f"there is a key already: {FOLDER}/{_FILE}",
                hint="`clif-stitch keys` shows its fingerprint; move the file away to make another.",
            ) from None
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(data)
                sink.flush()
                os.fsync(sink.fileno())
        except OSError:
            file.unlink(missing_ok=True)  # half a key would only stand in the way of a whole one
            raise
    return Signer(key)


def load_key(root: Path) -> Signs | None:
    """The project's key; None when there is none.

    Raises:
        ConfigError: others may read it, or it is no such key.
        DiskError: it cannot be read.
    """
    file = key_file(root)
    if not file.is_file():
        return None
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  as above
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  as above

    from stitch.rounds.signing import Signer  # noqa: PLC0415  as above

    if sys.platform != "win32" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise ConfigError(
            f"others can read {FOLDER}/{_FILE}", hint=f"Take that right away: chmod 600 {FOLDER}/{_FILE}"
        )
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except OSError as error:
        raise disk_error(file, error, what="read") from error
    except (ValueError, TypeError):
        raise ConfigError(f"{FOLDER}/{_FILE} is no private key", hint=_NOT_OURS) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{FOLDER}/{_FILE} is no Ed25519 key", hint=_NOT_OURS)
    return Signer(key)


def signing_of(settings: Settings, *, reading: bool = False) -> Signing | None:
    """What an actor signs and checks with; None in a run that does not sign.

    Args:
        settings: the project's.
        reading: for whoever only checks: no private key is looked at.

    Raises:
        ConfigError: `lead_key` is missing, or the key here cannot be used.
    """
    security = settings.security
    if not security.sign:
        return None
    if security.lead_key is None:
        raise ConfigError(
            "[security] sign is true and lead_key is missing",
            hint="Put the fingerprint that the lead's `clif-stitch keys` shows there, at every site.",
        )
    return Signing(
        lead_key=security.lead_key,
        lead=settings.lead,
        site="" if reading else settings.site,
        signer=None if reading else load_key(settings.root),
        synced=settings.store.synced,
    )
