"""KL divergence as the benchmark computes it, and as it reads llama.cpp's."""

from __future__ import annotations

import numpy as np

from benchmarks.quality import kl, parse_kl

PRINTED = """
Mean PPL(Q)                   :  20.114381 ±   1.473817
====== KL divergence statistics ======
Mean    KLD:   0.002469 ±   0.000070
Maximum KLD:   0.040688
99.9%   KLD:   0.032753
99.0%   KLD:   0.009540
95.0%   KLD:   0.005962
90.0%   KLD:   0.004641
Median  KLD:   0.001953
10.0%   KLD:   0.000549
"""


def test_kl_is_that_of_the_definition() -> None:
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])
    logits = [np.log(x)[None].astype(np.float32) + shift for x, shift in ((p, 3.0), (q, -7.0))]
    assert np.allclose(kl(*logits), 0.5 * np.log(2) - 0.25 * np.log(2), atol=1e-6)
    assert np.allclose(kl(logits[0], logits[0]), 0)


def test_llama_perplexity_is_read() -> None:
    figures = parse_kl(PRINTED)
    assert (figures["mean"], figures["max"], figures["p50"]) == (0.002469, 0.040688, 0.001953)
    assert figures["p99.9"] == 0.032753
