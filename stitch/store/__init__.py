"""How bytes travel: one contract, one backend a file, one wrapper a file."""

from stitch.store.base import Entry, Match, Mode, Progress, Store, Traits
from stitch.store.conflicts import Conflict, find_conflicts
from stitch.store.folder import FolderStore
from stitch.store.location import Location, StoreOptions, parse_location
from stitch.store.memory import MemoryStore
from stitch.store.meter import Meter, MeteredStore, Transfer
from stitch.store.open import open_store
from stitch.store.retry import RetryingStore
from stitch.store.secrets_filter import RedactingFilter, redact

__all__ = [
    "Conflict",
    "Entry",
    "FolderStore",
    "Location",
    "Match",
    "MemoryStore",
    "Meter",
    "MeteredStore",
    "Mode",
    "Progress",
    "RedactingFilter",
    "RetryingStore",
    "Store",
    "StoreOptions",
    "Traits",
    "Transfer",
    "find_conflicts",
    "open_store",
    "parse_location",
    "redact",
]
