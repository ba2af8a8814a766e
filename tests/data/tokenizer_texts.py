"""Texts that tokenizers get wrong, and a generator of many more: the same on every machine.

Nothing here depends on the version of Python's Unicode tables or on files of the machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

WRITTEN = (
    "",
    " ",
    "\n",
    "a",
    " leading space",
    "trailing space ",
    "   three spaces before",
    "Hello, world! It's a test; they'll've done it, WE'RE sure.",
    "don't DON'T Don’t I'D i'm",
    "1 12 123 1234 12345 3.14159 1,000,000 2024-02-29 0xFF 1e-9 ½ ² Ⅷ ٣",
    "x  1\n    2\n\t3\n      indented 4",
    "def f(x: int) -> str:\n    return f'{x!r}'\n\n\nclass A:\n\tpass\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * 2; } // ~^&|%$#@\r\n",
    '{"key": [1, 2.5, null, true], "nested": {"a": "\\u00e9"}}',
    "\t\ttabs\t and  \u00a0 no-break \u3000 wide \u200b zero \u2028 line",
    " " * 40 + "x" + " " * 17 + "\n" * 12 + "y" + "\t" * 9,
    "Grüße aus Köln, naïve café, Ångström, œuvre, ﬁn, İstanbul, ẞ",
    "e\u0301 is not é; n\u0303 is not ñ; A\u030a",
    "Привет, как дела? Съешь ещё этих мягких французских булок.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "日本語のテキスト、カタカナとひらがな。漢字",
    "我能吞下玻璃而不伤身体。繁體中文",
    "다람쥐 헌 쳇바퀴에 타고파",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ กำลังทดสอบ",
    "हिन्दी में लिखा हुआ वाक्य क्षत्रिय",
    "שלום עולם, מה שלומך? \u200fRTL\u200e",
    "مرحبا بالعالم، كيف حالك؟ ١٢٣",
    "ქართული ენა, հայերեն, አማርኛ, ትግርኛ",
    "🔥🚀👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇯🇵 ☃️ ⁉️ 1️⃣",
    "ď 𝕏 𝒜𝓃𝒸 𠜎𠜱 \U0001f9d1\u200d\U0001f4bb",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "<|im_start|> <|im_end|><|im_end|>x<|im_start",
    "<s>[INST] hi [/INST]</s> <bos><eos><unk><pad> <0x41> <0xE2>",
    "a<|endoftext|>b  <|endoftext|>  c",
    "https://example.com/a/b?c=d&e=%20f#g user@example.org",
    "$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$ ≤ ≠ ∞ ∑ → ⇒ ∀x∈ℝ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "!!!???...---===***___###",
    "\x00\x01\x02\x1b[31mred\x1b[0m\x7f",
    "\ufeffbyte order mark, \ufffd replacement, \uffff no character",
)

_BLOCKS = (
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0x61, 0x7A),
    (0xA0, 0x24F),
    (0x300, 0x36F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x590, 0x5FF),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0xE00, 0xE7F),
    (0x10A0, 0x10FF),
    (0x2000, 0x206F),
    (0x2190, 0x22FF),
    (0x3040, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x2A6DF),
)
_GLUE = (" ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "", "", "'s", "'LL", "123", "\u200d")


def generated(count: int, seed: int) -> Iterator[str]:
    """`count` texts of up to some 150 characters from all scripts, with glue between the runs."""
    draw = random.Random(seed)
    for _ in range(count):
        runs = []
        for _ in range(draw.randint(1, 10)):
            first, last = draw.choice(_BLOCKS)
            runs.append("".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 15))))
            runs.append(draw.choice(_GLUE))
        yield "".join(runs)


def all_texts() -> list[str]:
    """What the golden file covers, in its order."""
    return [*WRITTEN, *generated(1000, seed=20240229)]
