"""A store URL that a mail, an editor or a tired person mangled is mended, or refused with advice."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from stitch.config.urls import repair_url, without_token
from stitch.errors import ConfigError

RAW = "a+b/c+d/efghijklmnopqrstuvwxyz0123456789ABC="
SIG = quote(RAW, safe="")
ADDRESS = "https://acct.blob.core.windows.net/icu-nu"
TOKEN = f"sp=rcl&st=2026-01-01T00:00:00Z&se=2027-01-01T00:00:00Z&spr=https&sv=2024-11-04&sr=c&sig={SIG}"
URL = f"{ADDRESS}?{TOKEN}"
SIG_FIRST = f"{ADDRESS}?sig={SIG}&sv=2024-11-04&sr=c&sp=rcl"


def proofpoint_2(url: str) -> str:
    mangled = quote(url, safe="/").replace("-", "-2D").replace("%", "-").replace("/", "_")
    return f"https://urldefense.proofpoint.com/v2/url?u={mangled}&d=DwMFAg&c=abc&r=x&m=y&s=z&e="


def proofpoint_3(url: str) -> str:
    hidden = [char for char in url if char in "%+"]
    body = "".join("*" if char in "%+" else char for char in url)
    code = base64.urlsafe_b64encode("".join(hidden).encode()).decode().rstrip("=")
    return f"https://urldefense.com/v3/__{body}__;{code}!!Abc!token$"


def test_a_good_url_is_left_alone() -> None:
    assert repair_url(URL) == (URL, [])
    assert repair_url(SIG_FIRST) == (SIG_FIRST, [])


@pytest.mark.parametrize(
    "mangled",
    [
        f'"{URL}"',
        f"'{URL}' ",
        f"<{URL}>",
        f"\u201c{URL}\u201d",
        f"({URL})",
        f"{URL}.",
        f"{URL},",
        f"[{URL}]({URL})",
        f"[store]({URL}).",
        f"Your URL: {URL}",
        f"STITCH_STORE_GLOBAL={URL}",
        f'export STITCH_STORE="{URL}"',
        f'$env:STITCH_STORE = "{URL}"',
        URL.replace("&", "&amp;"),
        f'<a href="{URL}">the store</a>',
        URL.replace("https://", "https:/"),
        URL.replace("https://", "HTTPS://"),
        URL.replace("https://", "hxxps://"),
        URL.replace("https://", ""),
        URL.replace("https://", "http://"),
        URL.replace(".blob.", ".dfs."),
        URL.replace("?", ""),
        URL.replace("?", "/"),
        URL.replace("?", "&"),
        URL.replace("?", "??"),
        URL.replace("?", "/?"),
        URL.replace("?", "%3F"),
        URL[:60] + "\n" + URL[60:],
        URL[:60] + "\r\n   " + URL[60:],
        URL[:60] + " " + URL[60:],
        URL[:-10] + "\n" + URL[-10:],
        URL.replace("%2", "%252"),
        URL.replace("%2", "%25252"),
        quote(URL, safe=""),
        f"{ADDRESS}?{quote(TOKEN, safe='')}",
        URL.replace(SIG, RAW),
        URL.replace(SIG, RAW.replace("+", " ")),
        URL.replace(SIG, RAW.rstrip("=")),
        URL.replace("icu-nu", "icu-nu\u200b"),
        f"https://nam02.safelinks.protection.outlook.com/?url={quote(URL, safe='')}&data=05%7C01&reserved=0",
        f"https://nam02.safelinks.protection.outlook.com/?url={quote(URL, safe='')}&amp;data=05%7C01",
        proofpoint_2(URL),
        proofpoint_3(URL),
        f"https://eur.safelinks.protection.outlook.com/?url={quote(proofpoint_2(URL), safe='')}&data=1",
        f"https://linkprotect.cudasvc.com/url?a={quote(URL, safe='')}&c=E,1,abc",
        f"https://secure-web.cisco.com/1abcDEF/{quote(URL, safe='')}",
        f"https://www.google.com/url?q={quote(URL, safe='')}&sa=D",
        f"https://us-west-2.protection.sophos.com/?d=windows.net&u={base64.b64encode(URL.encode()).decode()}",
    ],
)
def test_a_mangled_url_is_mended(mangled: str) -> None:
    url, notes = repair_url(mangled)
    assert url == URL
    assert bool(notes) == (mangled.strip() != URL)
    assert not any(RAW[:12] in note or SIG[:12] in note for note in notes)


def test_a_mails_encoding_is_undone() -> None:
    wrapped = URL.replace("=", "=3D")
    broken = wrapped[:72] + "=\n" + wrapped[72:]
    assert repair_url(broken)[0] == URL


def test_a_signature_in_the_middle_is_mended_too() -> None:
    assert repair_url(SIG_FIRST.replace(SIG, RAW.replace("+", " ")))[0] == SIG_FIRST
    assert repair_url(SIG_FIRST.replace("?", ""))[0] == SIG_FIRST


def test_a_cut_signature_is_said_and_not_guessed() -> None:
    url, notes = repair_url(URL.replace(SIG, SIG[:20]))
    assert url == URL.replace(SIG, SIG[:20])
    assert any("cut" in note for note in notes)


def test_an_emulators_url_stays_http() -> None:
    url = f"http://127.0.0.1:10000/devstoreaccount1/icu?{TOKEN}"
    assert repair_url(url) == (url, [])


@pytest.mark.parametrize(
    "place", ["memory:", "file:///srv/icu%20store", "/srv/store (1)", "az://acct/icu/prefix", r"C:\icu store"]
)
def test_folders_and_short_urls_are_left_alone(place: str) -> None:
    assert repair_url(place) == (place, [])
    assert repair_url(f'"{place}"')[0] == place


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("https://protect-us.mimecast.com/s/AbCdEf?domain=acct.blob.core.windows.net", "Mimecast"),
        ("https://url.us.m.mimecastprotect.com/s/AbCdEf", "Mimecast"),
        ("https://bit.ly/3abc", "shortener"),
        ("https://urldefense.com/v3/__broken", "Proofpoint"),
        ("https://nam02.safelinks.protection.outlook.com/?data=05", "SafeLinks"),
        ("https://portal.azure.com/#view/container", "web page"),
        (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={RAW}", "connection string"),
    ],
)
def test_what_cannot_be_mended_is_refused_with_advice(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        repair_url(text)
    assert "sk" in caught.value.hint  # "Ask …"
    assert RAW not in str(caught.value) + caught.value.hint


def test_a_url_can_be_shown_without_its_token() -> None:
    assert without_token(URL) == ADDRESS
