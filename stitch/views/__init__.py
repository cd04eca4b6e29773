"""The run as data, read from its documents alone, and as tables for a terminal."""
