"""Sync: what travels between store and mirror, and by which rules (docs/protocol.md)."""
