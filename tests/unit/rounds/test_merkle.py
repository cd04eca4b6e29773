"""The root over a site's data: computed anew in another way, and what must change it."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.errors import ConfigError
from stitch.rounds import dataset_root, numbered
from stitch.rounds.merkle import open_leaf

SECRET = bytes(range(32))


def content(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def leaf(name: bytes, digest: bytes) -> bytes:
    episode = hashlib.sha256(b"\x00" + len(name).to_bytes(8, "big") + name + digest).digest()
    return hashlib.sha256(b"\x01" + hmac.new(SECRET, name, "sha256").digest() + episode).digest()


def top(leaves: list[bytes]) -> bytes:
    """From above, as RFC 6962 has it: the left half is the largest power of two below n."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return hashlib.sha256(b"\x02" + top(leaves[:half]) + top(leaves[half:])).digest()


def by_hand(episodes: list[tuple[bytes, bytes]]) -> str:
    leaves = [leaf(name, digest) for name, digest in sorted(episodes)]
    return hashlib.sha256(b"\x03" + len(leaves).to_bytes(8, "big") + top(leaves)).hexdigest()


def files(count: int) -> list[tuple[bytes, bytes]]:
    return [(f"rows-{number}.csv".encode(), content(f"{number} patients")) for number in range(count)]


@pytest.mark.parametrize("count", range(1, 10))
def test_a_tree_of_each_size_is_what_another_way_of_computing_it_gives(count: int) -> None:
    assert dataset_root(files(count), secret=SECRET) == by_hand(files(count))


@given(st.dictionaries(st.binary(max_size=40), st.binary(min_size=32, max_size=32), min_size=1, max_size=40))
def test_any_data_too(episodes: dict[bytes, bytes]) -> None:
    assert dataset_root(episodes.items(), secret=SECRET) == by_hand(list(episodes.items()))


def test_the_roots_are_those_of_the_protocol_page_for_ever() -> None:
    two = [(b"a.csv", content("one")), (b"b/c.csv", content("two"))]
    assert dataset_root(two[:1], secret=SECRET) == ROOT_OF_ONE
    assert dataset_root(two, secret=SECRET) == ROOT_OF_TWO


def test_no_data_has_no_root() -> None:
    with pytest.raises(ConfigError, match="no data to commit to"):
        dataset_root([], secret=SECRET)


@given(st.integers(1, 9), st.data())
def test_another_byte_name_file_or_secret_is_another_root(count: int, data: st.DataObject) -> None:
    honest = files(count)
    known = dataset_root(honest, secret=SECRET)
    at = data.draw(st.integers(0, count - 1))
    name, digest = honest[at]
    others = [
        [*honest[:at], (name, content("another")), *honest[at + 1 :]],
        [*honest[:at], (name + b"x", digest), *honest[at + 1 :]],
        [*honest, (b"one-more.csv", digest)],
        honest[:at] + honest[at + 1 :],
    ]
    roots = {dataset_root(other, secret=SECRET) for other in others if other}
    roots.add(dataset_root(honest, secret=bytes(32)))
    assert known not in roots
    assert len(roots) == len([other for other in others if other]) + 1


@given(st.permutations(files(7)))
def test_the_order_in_which_files_are_found_is_no_matter(found: list[tuple[bytes, bytes]]) -> None:
    assert dataset_root(found, secret=SECRET) == dataset_root(files(7), secret=SECRET)


def test_a_node_cannot_pass_for_a_leaf_nor_the_top_for_the_root() -> None:
    """Without tags, two leaves and the one leaf that holds their hash would have one root."""
    one, other = files(2)
    assert dataset_root([one], secret=SECRET) != leaf(*one).hex()
    joined = hashlib.sha256(leaf(*one) + leaf(*other)).digest()
    assert dataset_root([(b"", joined)], secret=SECRET) != dataset_root([one, other], secret=SECRET)


def test_leaves_without_names_are_a_collection_two_alike_count_twice() -> None:
    a, b = content("a"), content("b")
    assert numbered([a, b, a]) == numbered([b, a, a])
    root = dataset_root(numbered([a, b, a]), secret=SECRET)
    assert root != dataset_root(numbered([a, b]), secret=SECRET)
    assert root != dataset_root(numbered([a, b, b]), secret=SECRET)


def test_one_salt_a_leaf() -> None:
    """The same content under two names has nothing in common for whoever sees one leaf's salt."""
    assert leaf(b"a", content("x")) != leaf(b"b", content("x"))
    assert hmac.new(SECRET, b"a", "sha256").digest() != hmac.new(SECRET, b"b", "sha256").digest()


ROOT_OF_ONE = "3b56000b64f25f411be11b6f9bbd24659ab18f5c37c207c74575ca783a06ebda"
ROOT_OF_TWO = "4bdaea0dee15d8c94584d5523ce530ac854884fc9728b4d5912ee0a79715d96e"


# -- opening one leaf ------------------------------------------------------------------------------


def opened(name: bytes, digest: bytes, salt: bytes, *, path: list[tuple[str, bytes]], count: int) -> str:
    """As the protocol page has it, with what an auditor was given and nothing else."""
    episode = hashlib.sha256(b"\x00" + len(name).to_bytes(8, "big") + name + digest).digest()
    at = hashlib.sha256(b"\x01" + salt + episode).digest()
    for side, beside in path:
        at = hashlib.sha256(b"\x02" + (beside + at if side == "left" else at + beside)).digest()
    return hashlib.sha256(b"\x03" + count.to_bytes(8, "big") + at).hexdigest()


@pytest.mark.parametrize("count", range(1, 10))
def test_each_leaf_can_be_opened_without_the_secret_and_the_other_contents(count: int) -> None:
    root = dataset_root(files(count), secret=SECRET)
    for name, digest in files(count):
        found = open_leaf(files(count), name, secret=SECRET)
        assert (found.name, found.content, found.count) == (name, digest, count)
        assert SECRET not in (found.salt, *(beside for _, beside in found.path))
        path = [(str(side), beside) for side, beside in found.path]
        assert opened(name, digest, found.salt, path=path, count=count) == root == found.root
        assert opened(name, content("forged"), found.salt, path=path, count=count) != root


def test_what_is_not_among_them_cannot_be_opened() -> None:
    with pytest.raises(ConfigError, match="is none of the contents"):
        open_leaf(files(3), b"rows-9.csv", secret=SECRET)
