"""What the settings in a run's manifest demand of every seal of the run (docs/protocol.md, Proving a run)."""

from __future__ import annotations

from collections.abc import Mapping

from stitch.config import facts_sha256
from stitch.config.weighting import Weighting
from stitch.errors import BadDocument, DigestMismatch
from stitch.rounds.exhibits import Exhibit, hold
from stitch.rounds.seeds import round_seed
from stitch.wire import Manifest, Seal

_FRESH = ("all_expected", "quorum")
"""Policies that use no pass but those trained from the global that is being replaced."""


class Facts:
    """The settings that a run was begun with, as its manifest publishes them.

    Args:
        manifest: the root of the chain.

    Raises:
        DigestMismatch: its settings are not those of its hash.
    """

    def __init__(self, manifest: Exhibit[Manifest]) -> None:
        self._path, self._doc = manifest.path, manifest.doc
        self._settings = manifest.doc.settings
        policy = self._settings.get("policy")
        self._policy: Mapping[str, object] = policy if isinstance(policy, dict) else {}
        if facts_sha256(self._settings) != manifest.doc.config_sha256:
            raise DigestMismatch(f"{manifest.path}: its settings do not hash to its config_sha256")

    @property
    def require(self) -> object:
        """The name of the policy that closes a round."""
        return self._policy.get("require")

    @property
    def num_passes(self) -> object:
        """The number of the last global."""
        return self._settings.get("num_passes")

    @property
    def max_staleness(self) -> object:
        """The largest staleness that a round takes."""
        return 0 if self.require in _FRESH else self._policy.get("max_staleness")

    @property
    def commits(self) -> bool:
        """Whether every pass of this run commits to its data."""
        integrity = self._settings.get("integrity")
        return isinstance(integrity, dict) and integrity.get("commit") is True

    def weight(self, staleness: int) -> float | None:
        """What the run's policy asks a pass to weigh; None where it asks nothing.

        Raises:
            BadDocument: the policy has a weighting that this version does not know.
        """
        text = self._policy.get("weighting")
        if self.require in _FRESH or not isinstance(text, str):
            return None
        try:
            return Weighting.parse(text).at(staleness)
        except ValueError:
            raise BadDocument(f"{self._path}: its policy.weighting is none that this version knows") from None

    def pins(self, pass_id: int) -> dict[str, object]:
        """The pins that hold for a pass: some only for the start of a run."""
        pins = self._settings.get("pins")
        agreed = {
            name: pin
            for name, pin in (pins if isinstance(pins, dict) else {}).items()
            if isinstance(pin, dict)
        }
        in_force = {name: pin for name, pin in agreed.items() if pass_id <= 1 or pin.get("when") != "pass_0"}
        return {name: pin.get("sha256") for name, pin in in_force.items()}

    def seed(self, pass_id: int) -> int:
        """The seed of a round."""
        return round_seed(self._doc.root_seed, pass_id)

    def check_config(self, found: Exhibit[Seal]) -> None:
        """Compare a seal's settings, its model's extension and its pins with the run's.

        Raises:
            ProtocolError: they differ.
        """
        facts = self._doc
        hold(
            found.path,
            (
                (found.doc.config_sha256 == facts.config_sha256, "made with other settings than the run's"),
                (found.doc.ext == facts.settings.get("model_ext"), "its model has another extension"),
                (found.doc.pins == self.pins(found.doc.pass_id), "its pins are not those of the run"),
            ),
        )
