"""The error tree: each class carries its exit code, and each error what a person should do.

Expected outcomes are a `Status`; an exception here needs a person (or, for `StoreUnavailable`,
another try). A user sees two lines, `str(error)` and `error.hint`; the traceback goes to `runs/`.

Exit codes are banded: 2 usage and configuration, 10s hook, 20s store and disk, 30s protocol and
security, 40s round, 70 internal.
"""

from __future__ import annotations

from typing import ClassVar


class StitchError(Exception):
    """The root of everything clif-stitch raises on purpose.

    Args:
        cause: one line that says what is wrong, without secrets or patient data.
        hint: one line that says what to do about it.
    """

    exit_code: ClassVar[int] = 70
    default_hint: ClassVar[str] = "This is a defect of clif-stitch: report it with runs/<run_id>/."

    def __init__(self, cause: str, *, hint: str = "") -> None:
        super().__init__(cause)
        self.hint = hint or self.default_hint


class Stopped(Exception):
    """The work was ended because its caller asked for it; what it leaves can be resumed.

    Not a `StitchError`: the person who pressed Ctrl-C knows why.
    """


class ConfigError(StitchError):
    """The settings, the command line or the environment cannot be used as they are."""

    exit_code = 2
    default_hint = "Correct stitch.toml or config/config.json, then run `clif-stitch doctor`."


class StoreError(StitchError):
    """A store refused, failed or could not be reached."""

    exit_code = 20
    default_hint = "Run `clif-stitch doctor`: it tests the store step by step."


class StoreUnavailable(StoreError):
    """The store did not answer or is overloaded; the same request may succeed later.

    Args:
        retry_after: seconds the store asked us to wait, when it did.
    """

    exit_code = 21
    default_hint = "Check network and proxy; re-running the same command continues."

    def __init__(self, cause: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(cause, hint=hint)
        self.retry_after = retry_after


class StoreDenied(StoreError):
    """The credential is missing, expired, wrong, or lacks a permission."""

    exit_code = 22
    default_hint = "Ask the lead for a new store URL and put it into .env; a running `run` re-reads it."


class NotFound(StoreError):
    """The key does not exist."""

    exit_code = 27


class StoreMissing(NotFound):
    """The container or folder that should hold the keys does not exist: nothing is known of any key."""

    exit_code = 23
    default_hint = "Check the store URL or path; the lead creates the container or folder once."


class AlreadyExists(StoreError):
    """A create met an existing key, or a conditional replace met another version."""

    exit_code = 24


class OutcomeUnknown(StoreError):
    """A write was sent and its reply lost, and reading back could not settle it."""

    exit_code = 25
    default_hint = "Re-running the same command settles it."


class DiskError(StoreError):
    """The mirror's own disk is full, read-only or failing."""

    exit_code = 26
    default_hint = "Free space or mend the folder's permissions, then run the same command again."


class ProtocolError(StitchError):
    """Files on disk or in the store contradict the protocol."""

    exit_code = 30
    default_hint = "Do not delete anything; run `clif-stitch status` and show the line to the lead."


class BadDocument(ProtocolError):
    """A document is not valid JSON, or lacks or misuses a field."""

    exit_code = 31


class UnsupportedKind(ProtocolError):
    """A document was written by a newer major version."""

    exit_code = 32
    default_hint = "Install the clif-stitch version that the lead uses."


class DigestMismatch(ProtocolError):
    """Bytes do not hash to what their seal or name says."""

    exit_code = 33


class PinMismatch(ProtocolError):
    """A pinned artefact (warm start, preprocessing) differs from the pinned hash."""

    exit_code = 34


class CommitmentMismatch(ProtocolError):
    """A site's sealed pass declares another dataset than its `started` event."""

    exit_code = 35


class EgressRefused(ProtocolError):
    """Something would leave the site that the rules of least egress forbid (law 8)."""

    exit_code = 36
    default_hint = "Nothing left this machine. Correct the hook or [egress] in stitch.toml, then re-run."


class SignatureRefused(ProtocolError):
    """A document is not signed, or not by the key that its lane's owner is known by."""

    exit_code = 39
    default_hint = "Do not use it: ask its owner and the lead by telephone which key is right."


class RoundError(StitchError):
    """A round cannot go on."""

    exit_code = 40
    default_hint = "Run `clif-stitch status`: it says for whom the round waits and what was refused."


class QuorumNotReached(RoundError):
    """Fewer sites than the quorum answered within the deadline and the retry budget."""

    exit_code = 41


class NonDeterministicAggregation(RoundError):
    """The aggregate hook gave different bytes from the same inputs."""

    exit_code = 42


class LaneLost(RoundError):
    """Another process holds this lane's newest term (law 10)."""

    exit_code = 43
    default_hint = "One process per site: stop this one, or the other and re-run."


class SecureAggregationFailed(RoundError):
    """Masked inputs could not be unmasked by the surviving sites."""

    exit_code = 44


class PrivacyError(StitchError):
    """A privacy promise would be broken."""

    exit_code = 37
    default_hint = "Nothing left this machine. Settle it with the lead before this site goes on."


class PrivacyBudgetExceeded(PrivacyError):
    """The pass would spend more of the dataset's budget than is left."""

    exit_code = 38


class HookError(StitchError):
    """The user's hook failed; `run` retrains that pass when it is run again.

    Attributes:
        hook: "train", "aggregate", ….
        kind: the exception's type name, or the signal's, or "exit code 3".
        where: `file:line` of the hook's own code, "" when unknown. Both may leave the site.
        detail: the hook's own message and traceback. Never leaves the site unless opted in.
    """

    exit_code = 10
    default_hint = "Read the hook's log with `clif-stitch log`, correct the hook, re-run."

    def __init__(
        self, cause: str, *, hint: str = "", hook: str = "", kind: str = "", where: str = "", detail: str = ""
    ) -> None:
        super().__init__(cause, hint=hint)
        self.hook = hook
        self.kind = kind
        self.where = where
        self.detail = detail


class HookFailed(HookError):
    """The hook raised, exited non-zero, or was killed."""

    exit_code = 11


class HookTimeout(HookError):
    """The hook ran longer than `[hooks] timeout_minutes`."""

    exit_code = 12


class HookOutput(HookError):
    """The hook ended well but its model file or its metrics cannot be used."""

    exit_code = 13


class TransformDegenerate(HookError):
    """A `pre_release` filter could not transform the model; nothing is released."""

    exit_code = 14


class BadModel(HookError):
    """A model file cannot be opened tensor by tensor, or says something that its bytes deny."""

    exit_code = 15
    default_hint = "Look at how the train hook writes the model, then run again."
