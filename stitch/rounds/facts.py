"""What the settings in a run's manifest demand of every seal of the run (docs/protocol.md, Proving a run)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitch.config import facts_sha256
from stitch.config.weighting import Weighting
from stitch.errors import BadDocument, ConfigError, DigestMismatch
from stitch.rounds.accountant import Budget, rounded_up
from stitch.rounds.exhibits import Exhibit, hold
from stitch.rounds.seeds import round_seed
from stitch.rounds.transforms import clip_name, noise_name
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
        private = self._settings.get("privacy")
        self._privacy: Mapping[str, Any] = private if isinstance(private, dict) else {}
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

    @property
    def needed(self) -> int:
        """How many passes a global is made of at least."""
        least = self._policy.get("min_participants")
        return least if self.require == "quorum" and isinstance(least, int) else 1

    @property
    def site_transforms(self) -> tuple[str, ...]:
        """What every site's model must have gone through: in a private run its clip, and its own noise.

        Raises:
            BadDocument: the manifest's privacy cannot be read.
        """
        told = self._told()
        return told[:1] if self._privacy.get("mode") == "central" else told

    @property
    def global_transforms(self) -> tuple[str, ...]:
        """What every global beyond the first must have gone through.

        Raises:
            BadDocument: the manifest's privacy cannot be read.
        """
        return self._told() if self._privacy.get("mode") == "central" else ()

    def _told(self) -> tuple[str, ...]:
        """Clip and noise by their names; nothing in a run that is not private."""
        privacy = self._privacy
        if privacy.get("mode") is None:
            return ()
        try:
            clip, sigma = privacy["clip"], privacy.get("noise_multiplier")
            if sigma is None:  # the least that the passes need
                budget = Budget(privacy["epsilon"], privacy["delta"], privacy.get("adjacency", "add_remove"))
                sigma = rounded_up(budget.noise(max(1, self._settings["num_passes"])))
            return clip_name(clip), noise_name(sigma)
        except (KeyError, TypeError, ValueError, ConfigError):
            raise BadDocument(f"{self._path}: its privacy is none that this version knows") from None

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
