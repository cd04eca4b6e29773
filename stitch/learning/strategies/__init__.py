"""The strategies that come with clif-stitch, one algorithm a file, each with its source."""

from __future__ import annotations
