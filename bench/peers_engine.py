"""Shared by the engines of peers.py: the problem, the check against NumPy and the clock."""
import dataclasses
import statistics
import time

import numpy as np

TOLERANCE = 0.02  # relative error of a product with int8 activations; measured are 0.006 to 0.01
SETTLE_S = 0.05   # the previous engine's threads spin for some milliseconds after their last product


class PeerError(RuntimeError):
    """What went wrong and how to fix it; printed as the last line of the run."""


@dataclasses.dataclass
class Problem:
    """y = x * trits^T, with `copies` copies of the weights; a pass multiplies by each copy once."""
    n: int
    k: int
    m: int
    copies: int

    def __post_init__(self):
        random = np.random.default_rng(1)
        self.trits = random.integers(-1, 2, (self.n, self.k), dtype=np.int8)
        self.x = random.standard_normal((self.m, self.k), dtype=np.float32)
        self.truth = self.x @ self.trits.T.astype(np.float32)

    def codes(self, zero, block):
        """Four trits a byte, the first in the low bits, code = trit + zero: u8 [n, k / block, block / 4]."""
        # bit 7 6  5 4  3 2  1 0
        #    [t3 ][t2 ][t1 ][t0 ]
        codes = (self.trits + zero).astype(np.uint8).reshape(self.n, -1, block // 4, 4)
        return codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6

    def error_of(self, y):
        return float(np.linalg.norm(y - self.truth) / np.linalg.norm(self.truth))


class Engine:
    """A subclass has name, setting, weight_bytes and `run(threads)`, a pass over all copies that writes `outputs`."""

    def check(self, problem, threads):
        """Checks every copy's product for every number of threads, before anything is timed."""
        errors = []
        for count in threads:
            for y in self.outputs:
                y.fill(np.nan)
            self.run(count)
            errors += [problem.error_of(self.product(i)) for i in range(len(self.outputs))]
        self.error = float(np.max(errors))  # NaN (a y that was not written) counts as the largest
        if not self.error <= TOLERANCE:
            raise PeerError(f"{self.name} ({self.setting}) is wrong by {self.error:.3g} of the product, more than "
                            f"{TOLERANCE}; scripts/peers pins the versions of the peers: try others")

    def product(self, i):
        """The product of copy i, with its rows in the order of the problem's weights."""
        return self.outputs[i]

    def median_us(self, threads, repetitions):
        """The median time of one product in microseconds, after an untimed pass."""
        time.sleep(SETTLE_S)
        self.run(threads)
        samples = []
        for _ in range(repetitions):
            start = time.perf_counter()
            self.run(threads)
            samples.append((time.perf_counter() - start) / len(self.outputs))
        return 1e6 * statistics.median(samples)
