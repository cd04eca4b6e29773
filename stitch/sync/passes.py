"""A pass between mirror and store: model first, seal last, hashed on the way (laws 2, 3 and 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stitch import layout
from stitch.config.settings import Egress
from stitch.errors import AlreadyExists, BadDocument, DigestMismatch, NotFound, OutcomeUnknown
from stitch.files import disk, file_sha256, retried, sync_file
from stitch.layout import PassRef
from stitch.mirror import Mirror, Sealed
from stitch.store.base import Entry, Progress
from stitch.store.lanes import Lanes
from stitch.sync.documents import Documents, Stored
from stitch.sync.egress import check_attachment, check_counts, check_model
from stitch.sync.status import Status
from stitch.wire import Attachment, Seal


@dataclass(frozen=True, slots=True)
class Limits:
    """What a transferred model must keep to."""

    run_id: str
    ext: str
    max_bytes: int
    egress: Egress


class Passes:
    """Moves whole passes of one run."""

    def __init__(self, lanes: Lanes, mirror: Mirror, *, documents: Documents, limits: Limits) -> None:
        self._lanes = lanes
        self._mirror = mirror
        self._documents = documents
        self.limits = limits

    # -- looking ---------------------------------------------------------------------------------

    def stat_seal(self, ref: PassRef) -> Entry | None:
        """Whether the pass is sealed in the store: one request."""
        return self._lanes.stat(ref.seal)

    def read_seal(self, ref: PassRef) -> Stored[Seal] | None:
        """The stored seal, checked against its own place.

        Raises:
            BadDocument, UnsupportedKind: it cannot be believed.
            SignatureRefused: its lane's owner did not sign it.
        """
        got = self._lanes.read(ref.seal, limit=1 << 22)
        if got is None:
            return None
        entry, data = got
        seal = Seal.parse(data, source=ref.seal)
        self._check_place(ref, seal)
        signing = self._documents.signing
        if signing is not None and signing.absent(self._lanes, ref.seal, data=data):
            return None  # a copied folder brings its files in any order: not ready (law 2)
        self._documents.check(ref.seal, data, keep=False)  # the mirror's folder appears whole, with the seal
        return Stored(seal, data, entry)

    def newest(self, lane: str, *, at_least: int = -1) -> int:
        """The newest sealed pass of a lane; -1 when there is none.

        Lists once, then walks on by stat, since lists may be stale.

        Args:
            lane: the lane to look at.
            at_least: a pass known to be sealed; the walk begins there, without a list.
        """
        newest = at_least
        if newest < 0:
            for entry in self._lanes.list(f"{lane}/pass_"):
                key = layout.parse(entry.key)
                if key is not None and key.what is layout.What.SEAL and not key.attempt:
                    newest = max(newest, key.number)
        site = layout.lane_site(lane)
        probe = newest if site is None else max(newest, 0)  # a site's first pass is 1
        while self.stat_seal(PassRef(probe + 1, site)) is not None:
            newest = probe = probe + 1
        return newest

    # -- up --------------------------------------------------------------------------------------

    def push(
        self,
        sealed: Sealed,
        *,
        before_seal: Callable[[], None] = lambda: None,
        progress: Progress | None = None,
    ) -> Status:
        """Publish a pass that is sealed in the mirror.

        Args:
            sealed: the pass.
            before_seal: a last look at the lease between the model and the seal.
            progress: told of the model's bytes.

        Returns:
            UPLOADED, ALREADY_SYNCED, or CONFLICT when another seal is there.

        Raises:
            EgressRefused: the model or its counts may not leave; nothing was sent.
            DigestMismatch: the bytes sent do not hash to the seal; the seal was not sent.
        """
        there = self._lanes.read(sealed.ref.seal, limit=1 << 22)
        if there is not None:
            return Status.ALREADY_SYNCED if there[1] == sealed.data else Status.CONFLICT
        limits = self.limits
        check_model(sealed.model, ext=limits.ext, max_bytes=limits.max_bytes)
        if sealed.ref.site is not None:
            check_counts(sealed.seal.n_samples, limits.egress)
        self._push_files(sealed, progress)
        before_seal()
        stored = self._documents.create(sealed.ref.seal, sealed.seal, data=sealed.data)
        return Status.UPLOADED if stored.data == sealed.data else Status.CONFLICT

    def _push_files(self, sealed: Sealed, progress: Progress | None) -> None:
        """Everything that the seal names (law 2)."""
        seal, ref = sealed.seal, sealed.ref
        path = ref.model(seal.model_sha256, seal.ext)
        self._push_file(
            sealed.model, path, size=seal.model_bytes, wanted=seal.model_sha256, progress=progress
        )
        for one in seal.attachments:
            path = f"{ref.folder}/{one.file}"
            file = self._mirror.path(path)
            check_attachment(file, max_bytes=self.limits.max_bytes)
            self._push_file(file, path, size=one.bytes, wanted=one.sha256, progress=None)

    def _push_file(self, file: Path, path: str, *, size: int, wanted: str, progress: Progress | None) -> None:
        try:
            self._lanes.push(file, path, mode="create", digest=wanted, progress=progress)
        except (AlreadyExists, OutcomeUnknown):
            if self._stored_digest(path, size) != wanted:
                # Law 1: an owner may re-put a digest-named key with bytes that match its name.
                self._lanes.push(file, path, mode="replace", digest=wanted, progress=progress)
        except DigestMismatch:
            raise DigestMismatch(
                f"{path.rpartition('/')[0]}: {file.name} changed after it was sealed; it was not published",
                hint="Something else writes into stitch_store/: stop it, then run the same command again.",
            ) from None

    def _stored_digest(self, path: str, size: int) -> str | None:
        entry = self._lanes.stat(path)
        if entry is None or entry.size != size:
            return None  # whatever lies there: not worth fetching, however large it is
        if entry.digest is not None:
            return entry.digest
        to = self._mirror.scratch() / path.rpartition("/")[2]
        try:
            return self._lanes.pull(path, to).digest or file_sha256(to)
        finally:
            to.unlink(missing_ok=True)

    # -- down ------------------------------------------------------------------------------------

    def pull(self, ref: PassRef, *, progress: Progress | None = None) -> tuple[Status, Sealed | None]:
        """Bring a sealed pass into the mirror, re-hashed before anything can open it.

        Returns:
            DOWNLOADED or ALREADY_SYNCED with the pass; NO_NEW_PASS while the store holds no
            whole pass; CONFLICT when the mirror holds another sealed pass under that name.

        Raises:
            DigestMismatch: the stored model has the right size and wrong bytes.
            BadDocument, UnsupportedKind: the seal cannot be believed.
        """
        with self._mirror.entering(ref):
            return self._pull(ref, progress)

    def adopt(
        self, ref: PassRef, *, progress: Progress | None = None
    ) -> tuple[Status, Sealed | None, Path | None]:
        """`pull`, but the store's seal holds: another pass here under that name is set aside (law 2).

        Returns:
            What `pull` does, never CONFLICT; and where the other work lies now, if there was any.

        Raises:
            DigestMismatch, BadDocument, UnsupportedKind: as for `pull`.
        """
        with self._mirror.entering(ref):
            status, sealed = self._pull(ref, progress)
            if status is not Status.CONFLICT:
                return status, sealed, None
            aside = self._mirror.set_aside(ref)
            status, sealed = self._pull(ref, progress)
            return status, sealed, aside

    def _pull(self, ref: PassRef, progress: Progress | None) -> tuple[Status, Sealed | None]:
        stored = self.read_seal(ref)
        if stored is None:
            return Status.NO_NEW_PASS, None
        local = self._mirror.sealed(ref)
        if local is not None:
            same = local.data == stored.data
            if same:
                self._documents.check(ref.seal, stored.data)  # a crash may have lost the mirror's copy
            return (Status.ALREADY_SYNCED, local) if same else (Status.CONFLICT, local)
        model = self._pull_model(ref, stored.doc, progress)
        if model is None:
            return Status.NO_NEW_PASS, None
        self._mirror.land(ref, model, ext=stored.doc.ext, seal=stored.data)
        self._documents.check(ref.seal, stored.data)
        return Status.DOWNLOADED, self._mirror.sealed(ref)

    def _pull_model(self, ref: PassRef, seal: Seal, progress: Progress | None) -> Path | None:
        path = ref.model(seal.model_sha256, seal.ext)
        to = self._mirror.incoming(ref) / seal.model_file
        bound = _Bound(path, seal.model_bytes, progress)
        return to if self._pull_file(path, to, wanted=seal.model_sha256, bound=bound) else None

    def attachment(self, sealed: Sealed, listed: Attachment) -> Path | None:
        """A file that a seal lists beside the model, brought into the mirror and hashed on its way.

        Returns:
            Where it lies; None while the store does not hold it whole.

        Raises:
            DigestMismatch: the stored file has the right size and wrong bytes.
            BadDocument: the seal gives it a name or a size that no attachment may have.
        """
        path = f"{sealed.ref.folder}/{listed.file}"
        key = layout.parse(path)
        named = layout.stored_name(listed.name, listed.sha256, ext=listed.ext)
        if key is None or key.what is not layout.What.ATTACHMENT or listed.file != named:
            raise BadDocument(f"{sealed.ref.seal}: {listed.file} is no attachment's name")
        if listed.bytes > self.limits.max_bytes:
            raise BadDocument(f"{sealed.ref.seal}: {listed.file} is larger than transfer.max_file_mb allows")
        file = self._mirror.path(path)
        if file.is_file() and self._mirror.digest(file) == listed.sha256:
            return file
        to = self._mirror.scratch() / listed.file
        bound = _Bound(path, listed.bytes, None)
        if not self._pull_file(path, to, wanted=listed.sha256, bound=bound):
            return None
        with disk(file):
            sync_file(to)
            retried(lambda: to.replace(file))
        return file

    def _pull_file(self, path: str, to: Path, *, wanted: str, bound: _Bound) -> bool:
        """Fetch one file that a seal names; False while it is not whole (law 2)."""
        for last in (False, True):
            try:
                entry = self._lanes.pull(path, to, progress=bound)
            except NotFound:
                return False
            if (entry.digest or file_sha256(to)) == wanted:
                self._mirror.remember_digest(to, wanted)
                return True
            to.unlink(missing_ok=True)
            if entry.size < bound.limit:
                return False
            if last:
                raise _mismatch(path)
        return False

    def _check_place(self, ref: PassRef, seal: Seal) -> None:
        wrong = [
            f"{name} is {found!r:.80}"
            for name, found, wanted in (
                ("run_id", seal.run_id, self.limits.run_id),
                ("lane", seal.lane, ref.lane),
                ("pass_id", seal.pass_id, ref.number),
                ("model_file", seal.model_file, layout.stored_name("model", seal.model_sha256, ext=seal.ext)),
                ("model extension", seal.ext, self.limits.ext),
            )
            if found != wanted
        ]
        if seal.model_bytes > self.limits.max_bytes:
            wrong.append(f"model_bytes is {seal.model_bytes}, more than transfer.max_file_mb allows")
        if (seal.round is None) != (ref.site is not None):
            wrong.append("round record missing or misplaced")
        if wrong:
            raise BadDocument(f"{ref.seal}: {wrong[0]}")


@dataclass(frozen=True, slots=True)
class _Bound:
    """Ends a download as soon as it shows itself larger than its seal says."""

    path: str
    limit: int
    told: Progress | None

    def __call__(self, done: int, total: int) -> None:
        if max(done, total) > self.limit:
            raise _mismatch(self.path)
        if self.told is not None:
            self.told(done, total)


def _mismatch(path: str) -> DigestMismatch:
    what = "model" if "/model." in path else "file"
    return DigestMismatch(
        f"{path}: the stored {what} does not match its seal; it was not used",
        hint="The store was altered: tell the lead, and keep the store as it is.",
    )
