"""Store URLs as people write and paste them."""

from pathlib import Path

import pytest

from stitch.errors import ConfigError
from stitch.store import FolderStore, MemoryStore, StoreOptions, open_store, parse_location


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("/srv/share", "/srv/share"),
        ("relative/share", "relative/share"),
        ("file:///srv/my%20share", "/srv/my share"),
        ("file://localhost/srv", "/srv"),
        ('"/srv/quoted"', "/srv/quoted"),
        ("C:\\Users\\me\\share", "C:\\Users\\me\\share"),
        ("C:/Users/me", "C:/Users/me"),
        ("\\\\server\\share\\dir", "\\\\server\\share\\dir"),
        ("file:///C:/Users/me", "C:/Users/me"),
    ],
)
def test_folders(url: str, folder: str) -> None:
    assert parse_location(url, windows=False).folder == Path(folder)


def test_a_file_url_with_a_host_is_a_share_on_windows_only() -> None:
    assert parse_location("file://server/share/a", windows=True).folder == Path("\\\\server\\share\\a")
    with pytest.raises(ConfigError, match="another machine"):
        parse_location("file://server/share/a", windows=False)


@pytest.mark.parametrize(
    ("url", "endpoint", "container", "prefix", "token"),
    [
        ("az://acct1/box", "https://acct1.blob.core.windows.net", "box", "", ""),
        ("az://acct1/box/a/b/", "https://acct1.blob.core.windows.net", "box", "a/b", ""),
        (
            "https://acct1.blob.core.windows.net/box?sv=1&sig=x%3D",
            "https://acct1.blob.core.windows.net", "box", "", "sv=1&sig=x%3D",
        ),
        (
            "https://acct1.blob.core.windows.net/box/pre?sv=1&amp;sig=x",
            "https://acct1.blob.core.windows.net", "box", "pre", "sv=1&sig=x",
        ),
        (
            "http://127.0.0.1:10000/devstoreaccount1/box/p?sig=x",
            "http://127.0.0.1:10000/devstoreaccount1", "box", "p", "sig=x",
        ),
        ("https://blobs.hospital.org/box?sig=x", "https://blobs.hospital.org", "box", "", "sig=x"),
    ],
)  # fmt: skip
def test_azure(url: str, endpoint: str, container: str, prefix: str, token: str) -> None:
    found = parse_location(url)
    assert (found.kind, found.endpoint, found.container, found.prefix, found.token) == (
        "azure",
        endpoint,
        container,
        prefix,
        token,
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "scheme"),
        ("s3://bucket", "s3:"),
        ("az://acct1", "az://account/container"),
        ("az://acct1/Box", "not an Azure container name"),
        ("https://acct1.blob.core.windows.net/?sig=x", "names no container"),
        ("https://acct1.blob.core.windows.net/box?sv=2026", "no signature"),
    ],
)
def test_what_is_no_store_is_refused_by_name(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_location(url)


def test_a_token_never_shows() -> None:
    found = parse_location("https://acct1.blob.core.windows.net/box?sv=1&sig=SECRET")
    assert "SECRET" not in f"{found} {found!r}"
    assert "SECRET" not in repr(StoreOptions(environment={"AZURE_STORAGE_KEY": "SECRET"}))


def test_open_store_picks_the_backend(tmp_path: Path) -> None:
    assert isinstance(open_store("memory:", options=StoreOptions()), MemoryStore)
    synced = open_store(str(tmp_path), options=StoreOptions(synced=True))
    assert isinstance(synced, FolderStore)
    assert not synced.traits.atomic_create
