"""Every key and path of the protocol, both ways, and who may write it (docs/protocol.md, Names).

A *path* here is relative to the run: `global/pass_000/metrics.json`. The store holds it as
`<run_id>/<path>`, the mirror as `stitch_store/<run_id>/<path>`; only model files and attachments
differ, whose digest is in the store's name and not in the mirror's. A path that `parse` does not
know neither leaves a site nor is believed when found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from stitch.errors import BadDocument

GLOBAL = "global"
"""The lead's lane. A site's lane is `site_lane(id)`."""

DIGEST_CHARS = 12
"""How much of a SHA-256 a stored name carries: enough to tell any two models of one run apart."""

_SITE = r"(?=[a-z0-9-]{1,40}(?![a-z0-9-]))[a-z](?:-?[a-z0-9])*"
# Not \d, which is also the digits of every other script; and never so long that it is a number no more.
_NUMBER = r"(?:[0-9]{3}|[1-9][0-9]{3,17})"
_SERIAL = r"(?:[0-9]{4}|[1-9][0-9]{4,17})"
_DIGEST = rf"[0-9a-f]{{{DIGEST_CHARS}}}"
_WORD = r"(?!(?:model|metrics)\.)[a-z][a-z0-9_]{0,31}"  # a mirror drops the digest: no second seal
_EXT = r"[a-z0-9]{1,16}"
_LANE = rf"(?P<lane>global|sites/{_SITE})"
_FOLDER = rf"(?P<folder>{_LANE}/pass_(?P<n>{_NUMBER})(?:\.a(?P<r>[1-9][0-9]{{0,17}}))?)"
_EVENT = r"(?P<name>started|completed|failed|evaluated)(?:\.(?P<t>[2-9]|[1-9][0-9]{1,17}))?"


class What(StrEnum):
    """What a key is. The order is that of docs/protocol.md, The tree."""

    MANIFEST = "manifest"
    ORCHESTRATION = "orchestration"
    HEARTBEAT = "heartbeat"
    ROSTER = "roster"
    MODEL = "model"
    ATTACHMENT = "attachment"
    SEAL = "seal"
    VERDICT = "verdict"
    ABORT = "abort"
    TERM = "term"
    DONE = "done"
    JOIN = "join"
    EVENT = "event"
    SIGNATURE = "signature"


class Event(StrEnum):
    """Events of a site pass."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    EVALUATED = "evaluated"


REPLACED = frozenset({What.ORCHESTRATION, What.HEARTBEAT})
"""The only keys that are ever replaced; every other is created once (law 1)."""

SIGNED = frozenset({What.MANIFEST, What.ROSTER, What.SEAL, What.VERDICT, What.ABORT, What.DONE, What.JOIN})
"""What has a signature beside it in a run that signs: whatever decides, and is created once.

So have evaluated events, on which the best global and an early stop rest; see `is_signed`.
"""


@dataclass(frozen=True, slots=True, order=True)
class PassRef:
    """One pass of one lane.

    Attributes:
        number: 0 and up.
        site: the site's id; None for a global pass.
        attempt: above 0 only where an aborted attempt asked this site to redo the pass.
    """

    number: int
    site: str | None = None
    attempt: int = 0

    @property
    def lane(self) -> str:
        """The lane that holds the pass."""
        return GLOBAL if self.site is None else site_lane(self.site)

    @property
    def folder(self) -> str:
        """The pass folder's path, without a trailing slash."""
        suffix = f".a{self.attempt}" if self.attempt else ""
        return f"{self.lane}/{pass_name(self.number)}{suffix}"

    @property
    def seal(self) -> str:
        """The path of the pass's `metrics.json`, whose presence means "ready"."""
        return f"{self.folder}/metrics.json"

    def model(self, sha256: str, ext: str) -> str:
        """The model's path in the store: it carries its digest (`model.3f9a2c41d0b7.npz`)."""
        return f"{self.folder}/{stored_name('model', sha256, ext=ext)}"

    def mirror_model(self, ext: str) -> str:
        """The model's path in a mirror: plain (`model.npz`)."""
        return f"{self.folder}/model.{ext}"


@dataclass(frozen=True, slots=True)
class Key:
    """A parsed path.

    Attributes:
        what: what the key is.
        lane: whose it is; the lane's owner alone may write it.
        ref: the pass, for seals, models and attachments.
        number: the pass of an event or verdict, the serial of a roster, join or term.
        attempt: the training attempt of an event (1 and up), the round attempt of a verdict.
        name: the event's name, or an attachment's; of a signature, the path of what it signs.
        digest: the digest in a stored model's or attachment's name.
        signs: in a signature's name the digest of the document which it signs.
        ext: their extension.
    """

    what: What
    lane: str
    ref: PassRef | None = None
    number: int = 0
    attempt: int = 0
    name: str = ""
    digest: str = ""
    ext: str = ""
    signs: str = ""

    @property
    def replaced(self) -> bool:
        """Whether the key may be overwritten by its owner."""
        return self.what in REPLACED


def site_lane(site: str) -> str:
    """The lane of a site: `sites/<id>`."""
    return f"sites/{site}"


def lane_site(lane: str) -> str | None:
    """The site that owns a lane; None for the global lane."""
    return None if lane == GLOBAL else lane.removeprefix("sites/")


def lane_of(path: str) -> str:
    """The lane a path lies in, whether or not the path is known to `parse`."""
    head, _, rest = path.partition("/")
    return GLOBAL if head == GLOBAL else site_lane(rest.partition("/")[0])


def pass_name(number: int) -> str:
    """`pass_007`; grows past three digits (`pass_1000`): order by number, never by name."""
    return f"pass_{number:03d}"


def stored_name(stem: str, sha256: str, *, ext: str) -> str:
    """The store's file name of a model or attachment: `<stem>.<digest>.<ext>`."""
    return f"{stem}.{sha256[:DIGEST_CHARS]}.{ext}"


def manifest() -> str:
    """Settings, versions and seeds of the run, written before pass 0."""
    return f"{GLOBAL}/manifest.json"


def orchestration() -> str:
    """The lead's published view; replaced by ETag."""
    return f"{GLOBAL}/orchestration.json"


def done() -> str:
    """The end marker."""
    return f"{GLOBAL}/DONE.json"


def heartbeat(lane: str) -> str:
    """The one liveness file of a lane; replaced."""
    return f"{GLOBAL}/heartbeat.json" if lane == GLOBAL else f"{lane}/events/heartbeat.json"


def roster(number: int) -> str:
    """The n-th roster, from 1; the newest holds."""
    return f"{GLOBAL}/roster/{number:04d}.json"


def join(site: str, number: int) -> str:
    """The n-th join document of a site, from 1."""
    return f"{site_lane(site)}/join/{number:04d}.json"


def term(lane: str, number: int) -> str:
    """The n-th term of a lane's lease, from 1."""
    return f"{lane}/lease/term-{number:04d}.json"


def verdict(pass_id: int, attempt: int) -> str:
    """The one key that decides an attempt of a round (law 11)."""
    return f"{GLOBAL}/rounds/{pass_name(pass_id)}.a{attempt}.json"


def abort(pass_id: int, attempt: int) -> str:
    """Written only if an attempt was given up after its verdict."""
    return f"{GLOBAL}/rounds/{pass_name(pass_id)}.a{attempt}.aborted.json"


def event(site: str, pass_id: int, *, name: Event, attempt: int = 1) -> str:
    """An event of a training attempt: the first has no number, the second ends in `.2`."""
    suffix = f".{attempt}" if attempt > 1 else ""
    return f"{site_lane(site)}/events/{pass_name(pass_id)}.{name}{suffix}.json"


def central(pass_id: int) -> str:
    """The lead's own score of a global, on its validation set."""
    return f"{GLOBAL}/events/{pass_name(pass_id)}.{Event.EVALUATED}.json"


def is_signed(key: Key) -> bool:
    """Whether a run that signs has a signature beside this document."""
    return key.what in SIGNED or (key.what is What.EVENT and key.name == Event.EVALUATED)


def signature(path: str, sha256: str) -> str:
    """The signature of a document with these bytes: `pass_001/metrics.<digest>.sig.json`.

    It is named by the document's digest, not by its own: whoever has the document finds it.
    """
    return f"{path.removesuffix('.json')}.{sha256[:DIGEST_CHARS]}.sig.json"


_SIGNATURE = re.compile(rf"(?P<stem>.+)\.(?P<digest>{_DIGEST})\.sig\.json")

_PATTERNS: tuple[tuple[What, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        (What.MANIFEST, r"(?P<lane>global)/manifest\.json"),
        (What.ORCHESTRATION, r"(?P<lane>global)/orchestration\.json"),
        (What.DONE, r"(?P<lane>global)/DONE\.json"),
        (What.HEARTBEAT, r"(?P<lane>global)/heartbeat\.json"),
        (What.HEARTBEAT, rf"(?P<lane>sites/{_SITE})/events/heartbeat\.json"),
        (What.ROSTER, rf"(?P<lane>global)/roster/(?P<n>{_SERIAL})\.json"),
        (What.JOIN, rf"(?P<lane>sites/{_SITE})/join/(?P<n>{_SERIAL})\.json"),
        (What.TERM, rf"{_LANE}/lease/term-(?P<n>{_SERIAL})\.json"),
        (What.VERDICT, rf"(?P<lane>global)/rounds/pass_(?P<n>{_NUMBER})\.a(?P<a>0|[1-9][0-9]{{0,17}})\.json"),
        (
            What.ABORT,
            rf"(?P<lane>global)/rounds/pass_(?P<n>{_NUMBER})\.a(?P<a>0|[1-9][0-9]{{0,17}})\.aborted\.json",
        ),
        (What.EVENT, rf"(?P<lane>sites/{_SITE})/events/pass_(?P<n>{_NUMBER})\.{_EVENT}\.json"),
        (What.EVENT, rf"(?P<lane>global)/events/pass_(?P<n>{_NUMBER})\.(?P<name>evaluated)\.json"),
        (What.SEAL, rf"{_FOLDER}/metrics\.json"),
        (What.MODEL, rf"{_FOLDER}/model\.(?P<digest>{_DIGEST})\.(?P<ext>{_EXT})"),
        (What.ATTACHMENT, rf"{_FOLDER}/(?P<name>{_WORD})\.(?P<digest>{_DIGEST})\.(?P<ext>{_EXT})"),
    )
)


def parse(path: str) -> Key | None:
    """Read a path back; None for anything the layout does not name.

    Args:
        path: relative to the run, with forward slashes.
    """
    for what, pattern in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        part = found.groupdict()
        lane = part["lane"]
        number = int(part.get("n") or 0)
        redo = int(part.get("r") or 0)
        if redo and lane == GLOBAL:
            return None
        attempt = int(part.get("t") or 1) if what is What.EVENT else int(part.get("a") or redo)
        return Key(
            what=what,
            lane=lane,
            ref=PassRef(number, lane_site(lane), redo) if "folder" in part else None,
            number=number,
            attempt=attempt,
            name=part.get("name") or "",
            digest=part.get("digest") or "",
            ext=part.get("ext") or "",
        )
    return _signature(path)


def _signature(path: str) -> Key | None:
    found = _SIGNATURE.fullmatch(path)
    signed = parse(f"{found['stem']}.json") if found else None
    if found is None or signed is None or not is_signed(signed):
        return None
    number = signed.ref.number if signed.ref else signed.number
    return Key(
        what=What.SIGNATURE,
        lane=signed.lane,
        number=number,
        attempt=signed.attempt,
        name=f"{found['stem']}.json",
        signs=found["digest"],
    )


def require(path: str) -> Key:
    """`parse`, for a path that must be one of ours.

    Raises:
        BadDocument: the layout does not name it.
    """
    key = parse(path)
    if key is None:
        raise BadDocument(f"not a name of the protocol: {path[:120]!r}")
    return key


def mirror_path(path: str) -> str:
    """The mirror's name of a stored path: a model or attachment loses its digest."""
    key = parse(path)
    if key is None or key.ref is None or not key.digest:
        return path
    stem = "model" if key.what is What.MODEL else key.name
    return f"{key.ref.folder}/{stem}.{key.ext}"
