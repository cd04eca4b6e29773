"""Keys of a run that signs: this site's own, and whether the lead knows it."""

from __future__ import annotations

from collections.abc import Iterator

from stitch import layout
from stitch.cli.checks import Check, broken, fail, ok, warn
from stitch.client.keys import key_file, load_key, signing_of
from stitch.config.settings import Settings
from stitch.errors import ConfigError, ProtocolError, StitchError
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.sync.signing import Signing, Signs
from stitch.wire import MAX_BYTES, Roster

_NAME = "signing"


def key(settings: Settings) -> Iterator[Check]:
    """Whether this site can sign, and knows whom to believe."""
    if not settings.security.sign:
        return
    try:
        signing_of(settings, reading=True)
    except ConfigError as error:
        yield fail(_NAME, error)
    try:
        signer = load_key(settings.root)
    except StitchError as error:
        yield fail(_NAME, error)
        return
    if signer is None:
        todo = "`clif-stitch keys init`, and tell the lead its fingerprint; or bring back the copy."
        yield broken(_NAME, f"{key_file(settings.root).name} is not there: nothing can be signed", todo=todo)
        return
    lead_key = settings.security.lead_key
    if settings.is_lead and lead_key is not None and signer.fingerprint != lead_key:
        finding = (
            f"the key here ({signer.fingerprint[:12]}...) is not [security] lead_key ({lead_key[:12]}...)"
        )
        todo = "Bring back the lead's key; before the run begins, put this one into stitch.toml everywhere."
        yield broken(_NAME, finding, todo=todo)
    elif lead_key is not None:
        yield ok(_NAME, f"key {signer.fingerprint[:12]}..., the lead's is {lead_key[:12]}...")


def listed(settings: Settings, lanes: Lanes) -> Iterator[Check]:
    """Whether the newest roster has the fingerprint of the key here; at the lead, whose key it lacks."""
    security = settings.security
    if not security.sign or security.lead_key is None:
        return
    try:
        signer = load_key(settings.root)
        roster = _newest(lanes, Signing(lead_key=security.lead_key, lead=settings.lead))
    except ProtocolError as error:
        yield fail("roster", error)
        return
    except ConfigError:
        return  # `key` said it
    if roster is None:
        yield ok("roster", "the lead has not begun the run: nobody's key is listed yet")
    elif settings.is_lead:
        yield from _lacking(roster)
    elif signer is not None:
        yield from _ours(settings, signer, roster=roster)


def _ours(settings: Settings, signer: Signs, *, roster: Roster) -> Iterator[Check]:
    todo = (
        f"Read the lead your fingerprint (`clif-stitch keys`): sites add {settings.site} --key FINGERPRINT."
    )
    entry = next((one for one in roster.sites if one.site == settings.site), None)
    if entry is None:
        yield warn("roster", f"{settings.site} is not on roster {roster.number}", todo=todo)
    elif entry.key is None:
        yield warn(
            "roster", f"roster {roster.number} has no key of {settings.site}: no pass is used", todo=todo
        )
    elif entry.key != signer.fingerprint:
        finding = f"roster {roster.number} has another key of {settings.site} ({entry.key[:12]}...)"
        yield warn("roster", f"{finding}: no pass is used", todo=todo)
    else:
        yield ok("roster", f"roster {roster.number} lists the key of {settings.site}")


def _lacking(roster: Roster) -> Iterator[Check]:
    lacking = [one.site for one in roster.sites if one.key is None and one.state == "active"]
    if lacking:
        todo = "Ask them for their fingerprints: clif-stitch sites add ID --key FINGERPRINT."
        yield warn("roster", f"roster {roster.number} has no key of {', '.join(lacking)}", todo=todo)
    else:
        yield ok("roster", f"roster {roster.number} lists a key of every site")


def _newest(lanes: Lanes, signing: Signing) -> Roster | None:
    """The newest roster, read upwards from the first, each checked; this machine's mirror is not touched.

    Raises:
        ProtocolError: one cannot be believed.
    """
    newest: Roster | None = None
    while True:
        path = layout.roster(newest.number + 1 if newest else 1)
        got = lanes.read(path, limit=MAX_BYTES)
        if got is None:
            return newest
        newest = Roster.parse(got[1], source=path)
        check_place(newest, path, run_id=lanes.run_id)
        signing.check(lanes, path, data=got[1])
