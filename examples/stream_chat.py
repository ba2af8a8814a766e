"""Stream one chat answer from a running server with the official client (pip install openai).

Usage: python examples/stream_chat.py [QUESTION] [BASE_URL]
"""

import sys

from openai import OpenAI

question = sys.argv[1] if len(sys.argv) > 1 else "Name three kinds of steam engine."
base_url = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8000/v1"

client = OpenAI(base_url=base_url, api_key="unused")
stream = client.chat.completions.create(
    model=client.models.list().data[0].id,
    messages=[{"role": "user", "content": question}],
    max_tokens=64,
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    elif chunk.usage:
        print(f"\n{chunk.usage.completion_tokens} tokens")
