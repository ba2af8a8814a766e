"""Complete several prompts in one process, without a server.

Usage: python examples/offline_batch.py [MODEL]
"""

import sys

from stoker import LLM, SamplingParams

prompts = ["The boiler is", "Coal burns", "A stoker works"]
llm = LLM(sys.argv[1] if len(sys.argv) > 1 else "")
params = SamplingParams(temperature=0.8, top_p=0.95, seed=7, max_tokens=32)
for prompt, completion in zip(prompts, llm.generate(prompts, params), strict=True):
    print(prompt + completion.choices[0].text, end="\n\n")
