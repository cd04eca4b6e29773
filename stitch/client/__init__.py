"""The client: the seed's verbs over one run, for loops and notebooks alike."""

from stitch.client.client import Client
from stitch.client.journal import Journal, Listener, Note
from stitch.client.setup import Runner, Setup

__all__ = ["Client", "Journal", "Listener", "Note", "Runner", "Setup"]
