"""Mail scanners replace links by links to themselves: the original taken out again, where it is inside."""

from __future__ import annotations

import base64
import binascii
import re
import string
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from stitch.errors import ConfigError

_ADVICE = "Ask the lead for the URL in a file or a password manager, not as a link in a mail."
_RUN_LENGTHS = {
    char: number for number, char in enumerate(string.ascii_letters.swapcase() + string.digits + "-_", 2)
}


def _parameter(name: str) -> Callable[[str], str]:
    """Takes the original from a percent-encoded query parameter."""

    def take(url: str) -> str:
        match = re.search(rf"[?&]{name}=([^&]*)", url)
        return unquote(match[1]) if match else ""

    return take


def _proofpoint_2(url: str) -> str:
    match = re.search(r"[?&]u=([^&]*)", url)
    return unquote(match[1].translate(str.maketrans("-_", "%/"))) if match else ""


def _proofpoint_3(url: str) -> str:
    """`v3/__URL__;BYTES!!`: each `*` stands for a byte of BYTES, `**X` for a run of them."""
    match = re.search(r"/v3/__(.+?)__;([A-Za-z0-9_-]*)!", url)
    if match is None:
        return ""
    try:
        hidden = base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    rest = iter(hidden)

    def put(token: re.Match[str]) -> str:
        count = _RUN_LENGTHS.get(token[0][-1], 0) if len(token[0]) == 3 else 1
        return "".join(next(rest, "") for _ in range(count))

    return re.sub(r"\*(?:\*.)?", put, re.sub(r"^([a-z]+:/)(?=[^/])", r"\1/", match[1]))


def _in_path(url: str) -> str:
    match = re.search(r"/(https?(?::|%3A).*)", url[8:], re.IGNORECASE)
    return unquote(match[1]) if match else ""


def _base64_parameter(url: str) -> str:
    match = re.search(r"[?&]u=([^&]*)", url)
    text = unquote(match[1]) if match else ""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


# host suffix, path prefix, the scanner's name, how the original is taken out
_SCANNERS: tuple[tuple[str, str, str, Callable[[str], str]], ...] = (
    ("safelinks.protection.outlook.com", "", "Outlook SafeLinks", _parameter("url")),
    ("safelinks.protection.office365.us", "", "Outlook SafeLinks", _parameter("url")),
    ("urldefense.proofpoint.com", "/v1/", "Proofpoint URL Defense", _parameter("u")),
    ("urldefense.proofpoint.com", "/v2/", "Proofpoint URL Defense", _proofpoint_2),
    ("urldefense.com", "/v3/", "Proofpoint URL Defense", _proofpoint_3),
    ("urldefense.us", "/v3/", "Proofpoint URL Defense", _proofpoint_3),
    ("urldefense.proofpoint.com", "/v3/", "Proofpoint URL Defense", _proofpoint_3),
    ("linkprotect.cudasvc.com", "", "Barracuda", _parameter("a")),
    ("trendmicro.com", "", "Trend Micro", _parameter("url")),
    ("fireeye.com", "", "FireEye", _parameter("u")),
    ("protection.sophos.com", "", "Sophos", _base64_parameter),
    ("secure-web.cisco.com", "", "Cisco", _in_path),
    ("google.com", "/url", "Google", _parameter("q")),
    # These keep the original on their own servers.
    ("mimecast.com", "", "Mimecast", lambda _: ""),
    ("mimecastprotect.com", "", "Mimecast", lambda _: ""),
    ("bit.ly", "", "a link shortener", lambda _: ""),
    ("tinyurl.com", "", "a link shortener", lambda _: ""),
    ("aka.ms", "", "a link shortener", lambda _: ""),
)
_PAGES = ("portal.azure.com", "sharepoint.com", "box.com", "drive.google.com", "onedrive.live.com", "1drv.ms")


def unwrap(url: str) -> tuple[str, str]:
    """The original of a scanned link and the scanner's name; the URL itself and "" if it is none.

    Raises:
        ConfigError: the original is not inside, or the URL is a web page and no store.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    for suffix, path, name, take in _SCANNERS:
        if _under(host, suffix) and parts.path.startswith(path):
            original = take(url)
            if not original.lower().startswith("http"):
                raise ConfigError(f"the URL was replaced by {name}, which hides the original", hint=_ADVICE)
            return original, name
    if any(_under(host, page) for page in _PAGES):
        raise ConfigError(
            f"{host} is a web page for people, not a store",
            hint="Ask the lead for the container's SAS URL (https://...blob.core.windows.net/...?sv=...).",
        )
    return url, ""


def _under(host: str, suffix: str) -> bool:
    return host == suffix or host.endswith("." + suffix)
