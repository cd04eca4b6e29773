"""How bytes travel: one contract, one backend a file, one wrapper a file."""

from stitch.store.base import Entry, Match, Mode, Progress, Store, Traits
from stitch.store.folder import FolderStore
from stitch.store.memory import MemoryStore
from stitch.store.open import Location, StoreOptions, open_store, parse_location
from stitch.store.secrets_filter import RedactingFilter, redact

__all__ = [
    "Entry",
    "FolderStore",
    "Location",
    "Match",
    "MemoryStore",
    "Mode",
    "Progress",
    "RedactingFilter",
    "Store",
    "StoreOptions",
    "Traits",
    "open_store",
    "parse_location",
    "redact",
]
