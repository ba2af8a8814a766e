"""How a byte-level vocabulary cuts text before its merges apply, by the name a GGUF file gives.

A GGUF file holds vocabulary and merges, but of the cutting only a name (`tokenizer.ggml.pre`). What
the names mean is a fact about each model, published in its own tokenizer.json; llama.cpp chose the
names. A wrong rule gives a working model that reads text it was never trained on, so an unknown
name is an error and never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

from stoker.core.errors import CheckpointError

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD_AND_MARKS = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
_LLAMA3 = rf"{_WORD_AND_MARKS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
_QWEN2 = rf"{_WORD_AND_MARKS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One cutting rule.

    patterns apply one after the other, each cutting the pieces that the one before left.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    """A piece that is itself a token is taken whole, even where no chain of merges builds it."""
    compose: bool = False
    """Text is brought to Unicode NFC first."""
    add_bos: bool = False
    """Whether prompts start with BOS where the file does not say."""

    def split(self) -> pre_tokenizers.PreTokenizer:
        cuts = [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in self.patterns]
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, to_bytes])

    def normalizer(self) -> normalizers.Normalizer | None:
        return normalizers.NFC() if self.compose else None


_GPT2_RULE = PreTokenizer((_GPT2,))
_DIGITS_THEN_GPT2 = PreTokenizer((r"\p{N}", _GPT2))
_LLAMA3_RULE = PreTokenizer((_LLAMA3,), whole_words=True, add_bos=True)
_QWEN2_RULE = PreTokenizer((_QWEN2,), compose=True)
_TEKKEN_RULE = PreTokenizer((_TEKKEN,), whole_words=True, add_bos=True)

RULES: dict[str, PreTokenizer] = {
    "default": _GPT2_RULE,
    "gpt-2": _GPT2_RULE,
    "smollm": _DIGITS_THEN_GPT2,
    "starcoder": _DIGITS_THEN_GPT2,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
    "tekken": _TEKKEN_RULE,
}


def pre_tokenizer(name: str) -> PreTokenizer:
    """The rule of that name; CheckpointError if it is not known."""
    rule = RULES.get(name)
    if rule is None:
        known = ", ".join(sorted(RULES))
        raise CheckpointError(f"pre-tokenizer {name!r} of the GGUF file is unknown; known: {known}")
    return rule
