"""Store URLs as people receive them: mangled by mail scanners, quoting and copying."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from stitch.config.scanners import unwrap
from stitch.errors import ConfigError

_AROUND = "\"'`<>\u201c\u201d\u2018\u2019\u00ab\u00bb \t\r\n"
_AFTER = ".,;:!()[]{}" + _AROUND
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_WEB = re.compile(r"h(?:tt|xx)ps?(?:\[?:\]?|%(?:25)*3A|(?=//))", re.IGNORECASE)
_BLOB_HOST = re.compile(r"(?<![\w.-])[a-z0-9]{3,24}\.(?:blob|dfs)\.core\.\w", re.IGNORECASE)
# How a token can begin when the "?" before it was lost.
_TOKEN_START = re.compile(
    r"[/&]?(?=(?:sv=\d{4}-|sp=[a-z]+&|s[et]=\d{4}-|si=|sr=[bcd]&|spr=https|skoid=|ss=\w+&|sig=))"
)
_SIGNATURE_LENGTH = 44  # base64 of an HMAC-SHA256
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")


def without_token(url: str) -> str:
    """The URL as it may be shown: without query and password."""
    return re.sub(r"(://)[^/@\s]*@", r"\1", url.split("?", 1)[0])


def repair_url(text: str) -> tuple[str, list[str]]:
    """The URL that `text` means.

    Args:
        text: what was pasted: a URL, a folder, or a line of a `.env` file.

    Returns:
        The mended URL, and a note for each thing mended. Notes never hold any of the token.

    Raises:
        ConfigError: it is a scanned link whose original is not inside, a connection string, or a
            web page. Neither cause nor hint holds any of the token.
    """
    notes: list[str] = []
    text = _bare(text, notes)
    if "accountkey=" in text.lower() or "sharedaccesssignature=" in text.lower():
        raise ConfigError(
            "this is a connection string, which opens the whole account",
            hint="Ask for a SAS URL of one container: https://...blob.core.windows.net/container?sv=...",
        )
    web = _WEB.search(text) or _BLOB_HOST.search(text)
    if web is None or re.match(r"az://|file:|memory:|oci://|[/\\.~]|[A-Za-z]:[\\/]", text, re.IGNORECASE):
        return text, notes
    if web.start():
        _note(notes, "text before the URL was dropped")
        text = text[web.start() :]
    for _ in range(4):  # a link may have been scanned at both ends
        text = _web_address(text, notes)
        text, scanner = unwrap(text)
        if not scanner:
            break
        _note(notes, f"the link of {scanner} was replaced by the original")
    address, query = _split(text, notes)
    return (f"{address}?{_token(query, notes)}" if query else address), notes


def _note(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)


def _bare(text: str, notes: list[str]) -> str:
    """Without what stands around the URL: a variable's name, quotes, brackets."""
    bare = _INVISIBLE.sub("", text.replace("\u00a0", " ")).strip()
    if bare != text.strip():
        _note(notes, "invisible characters were removed")
    named = re.match(r"(?:export\s+|set\s+|\$env:)?STITCH_STORE\w*\s*=\s*", bare, re.IGNORECASE)
    if named:
        bare = bare[named.end() :]
        _note(notes, "the variable's name before the URL was dropped")
    link = re.match(r"\[[^\]]*\]\((.*)\)\W*\Z", bare, re.DOTALL)
    if link:
        bare = link[1]
        _note(notes, "a link's brackets were taken off")
    stripped = bare.strip(_AROUND)
    if stripped != bare and bare.strip():
        _note(notes, "quotes around the URL were taken off")
    return stripped


def _web_address(text: str, notes: list[str]) -> str:
    """Line breaks, HTML, a mail's own encoding and the scheme mended."""
    whole = re.sub(r"=[\r\n]+", "", text) if "=3D" in text else text
    whole = re.sub(r"\s*[\r\n\t]+\s*", "", whole)
    head, sig, tail = _cut_signature(whole)
    whole = re.sub(r" +", "", head) + sig + tail
    if whole != text:
        _note(notes, "line breaks or spaces inside the URL were removed")
    plain = re.sub(r"&(?:amp|#38|#x26);", "&", whole, flags=re.IGNORECASE)
    plain = re.split(r"&(?:gt|lt|quot|#34);|[<>\"]", plain, maxsplit=1)[0]
    if plain != whole:
        _note(notes, "HTML around or inside the URL was removed")
    if re.search(r"[?&]\w+=3D", plain):
        plain = plain.replace("=3D", "=")
        _note(notes, "a mail's encoding (=3D) was undone")
    for _ in range(3):
        if re.match(r"\w+%(?:25)*3A", plain, re.IGNORECASE):
            plain = unquote(plain)
            _note(notes, "a percent-encoded URL was decoded")
    fixed = re.sub(r"^h(?:tt|xx)p(s?)\[?:?\]?/{1,3}", _scheme, plain, flags=re.IGNORECASE)
    fixed = fixed.replace("[.]", ".")
    if "://" not in fixed[:8]:
        fixed = "https://" + fixed
    fixed = re.sub(r"^http://(?=[^/]*\.core\.\w)", "https://", fixed)
    fixed = re.sub(r"^(https://[a-z0-9]+)\.dfs\.(core\.)", r"\1.blob.\2", fixed)
    if fixed != plain:
        _note(notes, "the beginning of the URL was mended")
    return fixed


def _scheme(match: re.Match[str]) -> str:
    return f"http{match[1].lower()}://"


def _cut_signature(text: str) -> tuple[str, str, str]:
    """Text before a token's signature, the signature as it stands, and what follows."""
    match = re.search(r"([?&/]|[a-z0-9;])sig=([^&]*)", text)
    return (text[: match.start(2)], match[2], text[match.end(2) :]) if match else (text, "", "")


def _split(url: str, notes: list[str]) -> tuple[str, str]:
    """Address and token, at a "?" that may be doubled, encoded or missing."""
    address, mark, query = url.partition("?")
    if not mark:
        address, mark, query = re.sub(r"%3F", "?", url, count=1, flags=re.IGNORECASE).partition("?")
        if mark:
            _note(notes, 'an encoded "?" was decoded')
    if not mark and re.search(r"sig(?:=|%3D)", url):
        start = _TOKEN_START.search(url, url.find("/", 8) + 1)
        if start:
            address, query = url[: start.start()], url[start.end() :]
            _note(notes, 'the missing "?" before the token was put back')
    if query.startswith(("?", "&")):
        query = query.lstrip("?&")
        _note(notes, 'a doubled "?" was removed')
    if not query:
        trimmed = address.rstrip(_AFTER)
        if trimmed != address:
            _note(notes, "punctuation after the URL was removed")
        address = trimmed
    if query and address.endswith("/"):
        address = address.rstrip("/")
        _note(notes, 'a slash before the "?" was removed')
    return address, query


def _token(query: str, notes: list[str]) -> str:
    """The token with each value percent-encoded once."""
    once = query
    while re.search(r"%25[0-9A-F]{2}", once, re.IGNORECASE):
        once = re.sub(r"%25(?=[0-9A-F]{2})", "%", once, flags=re.IGNORECASE)
    if "sig%3d" in once.lower() or "%26sig" in once.lower():
        once = unquote(once)
    if once != query:
        _note(notes, "double percent-encoding was undone")
    trimmed = once.rstrip(_AFTER + "&")
    if trimmed != once:
        _note(notes, "punctuation after the URL was removed")
    fields = trimmed.split("&")
    for place, item in enumerate(fields):
        name, _, value = item.partition("=")
        if name == "sig":
            fields[place] = f"sig={_signature(value, notes)}"
        elif " " in item:
            fields[place] = item.replace(" ", "")
    return "&".join(fields)


def _signature(value: str, notes: list[str]) -> str:
    """A signature as a URL carries it: base64, percent-encoded once."""
    decoded = unquote(value)
    # A "+" that was decoded once too often is a space; a line that was wrapped leaves one as well.
    spaced, joined = decoded.replace(" ", "+"), decoded.replace(" ", "")
    plain = joined if len(joined) in (_SIGNATURE_LENGTH - 1, _SIGNATURE_LENGTH) else spaced
    if len(plain) == _SIGNATURE_LENGTH - 1 and _BASE64.match(plain) and not plain.endswith("="):
        plain += "="
        _note(notes, 'the "=" at the end of the signature was put back')
    if not _BASE64.match(plain):
        return value
    if len(plain) != _SIGNATURE_LENGTH:
        _note(notes, f"the signature has {len(plain)} characters, not {_SIGNATURE_LENGTH}: it may be cut")
    encoded = quote(plain, safe="")
    if encoded != value and unquote(value) == value and set(value) & set("+/ ="):
        _note(notes, "the signature had been decoded; it was encoded again")
    return encoded
