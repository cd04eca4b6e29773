"""`stitch.toml`, `config/config.json` and the environment, read into frozen `Settings`."""

from __future__ import annotations

from stitch.config.environment import reload_environ, reload_urls, require_urls
from stitch.config.fingerprint import config_facts, config_sha256, differences, facts_sha256
from stitch.config.load import load_settings
from stitch.config.settings import Settings

__all__ = [
    "Settings",
    "config_facts",
    "config_sha256",
    "differences",
    "facts_sha256",
    "load_settings",
    "reload_environ",
    "reload_urls",
    "require_urls",
]
