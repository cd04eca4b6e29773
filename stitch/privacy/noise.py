"""Gaussian noise from a cryptographic generator, added on a lattice.

Floating-point noise betrays what it hides: which doubles can come out of x + noise depends on x
(Mironov 2012, doi:10.1145/2382196.2382264; for Gaussians Casacuberta et al. 2022, arXiv:2207.10635).
So both summands are brought to multiples of one step, 2^-30 to 2^-31 of the noise's standard
deviation, and added as whole numbers: every result is possible for every input. As the input lies on
the lattice, rounding the noise alone is rounding the exact sum, and what is computed from a private
result is as private: the promise is that of the exact Gaussian mechanism for the truncated input.

What is left beside that promise: normal deviates are computed in double precision (relative error
around 1e-15, a millionth of a step), and none is beyond 9.42 standard deviations, which an exact
draw is with a probability of 5e-21.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

_FINENESS = 30
_WORDS = 2.0**-64


class Noise:
    """Draws of N(0, std^2), rounded to multiples of `step`; no two objects share a draw.

    The key is 32 bytes of the operating system's randomness, kept by this object alone.

    Args:
        std: the standard deviation, above 0.
    """

    def __init__(self, std: float) -> None:
        self._std = std
        self.step = 2.0 ** (math.floor(math.log2(std)) - _FINENESS)
        cipher = Cipher(ChaCha20(secrets.token_bytes(32), bytes(16)), mode=None)
        self._stream = cipher.encryptor()

    def whole(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Finite values in steps, truncated toward zero: whole numbers below 2^52, added without error.

        Truncation makes no vector longer, so a bound on its length still holds. A sum is truncated
        term by term: one term changes it then by no more than its own length.
        """
        steps: NDArray[np.float64] = np.trunc(values / self.step)  # a power of two: an exact division
        return steps

    def draw(self, count: int) -> NDArray[np.float64]:
        """So many draws in steps: whole numbers."""
        drawn: NDArray[np.float64] = np.rint(self._normal(count) * (self._std / self.step))
        return drawn

    def _normal(self, count: int) -> NDArray[np.float64]:
        """Standard normal deviates (Box and Muller 1958)."""
        half = (count + 1) // 2
        words = np.frombuffer(self._stream.update(bytes(16 * half)), dtype="<u8").astype(np.float64)
        radius = np.sqrt(-2.0 * np.log((words[:half] + 1.0) * _WORDS))
        angle = (2.0 * math.pi * _WORDS) * words[half:]
        pair: NDArray[Any] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return pair[:count]
