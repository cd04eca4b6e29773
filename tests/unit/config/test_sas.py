"""What a token says about itself."""

from __future__ import annotations

from datetime import UTC, datetime

from stitch.config.sas import describe_sas

BASE = "https://acct.blob.core.windows.net/icu/some/prefix"


def test_a_container_token() -> None:
    facts = describe_sas(
        f"{BASE}?sp=rcl&st=2026-01-01&se=2026-12-31T23%3A30%3A00Z&spr=https&sip=1.2.3.4&sv=2024-11-04&sr=c&sig=SECRET"
    )
    assert (facts.host, facts.container, facts.prefix) == ("acct.blob.core.windows.net", "icu", "some/prefix")
    assert facts.signed
    assert facts.starts == datetime(2026, 1, 1, tzinfo=UTC)
    assert facts.expires == datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    assert (facts.permissions, facts.scope, facts.protocol, facts.ip) == (
        "rcl",
        "container",
        "https",
        "1.2.3.4",
    )
    assert "SECRET" not in repr(facts)


def test_what_a_token_lacks() -> None:
    def lacks(permissions: str) -> str:
        return describe_sas(f"{BASE}?sp={permissions}&sr=c&sig=x").lacks("rcl")

    assert (lacks("rcl"), lacks("rl"), lacks("rwl"), lacks("r")) == ("", "c", "", "cl")
    assert describe_sas(f"{BASE}?si=policy&sr=c&sig=x").lacks("rcl") == ""


def test_other_tokens_and_none() -> None:
    assert describe_sas(f"{BASE}?ss=b&srt=sco&sp=rl&sig=x").scope == "account"
    assert describe_sas(f"{BASE}?skoid=1&sr=c&sp=rl&sig=x").delegated
    assert describe_sas(f"{BASE}?se=rubbish&sig=x").expires is None
    assert not describe_sas(BASE).signed
    assert not describe_sas("file:///srv/store").signed
    assert describe_sas("http://127.0.0.1:1/devstoreaccount1/icu?sig=x").container == "icu"
