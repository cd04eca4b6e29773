"""The version of clif-stitch, as its distribution's metadata says."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("clif-stitch")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
