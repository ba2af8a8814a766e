"""LLM: a model in this process, for scripts and notebooks. The same engine as behind the server.

Not safe for more than one thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from stoker.core.config import EngineConfig, KernelName
from stoker.core.errors import InvalidRequest
from stoker.core.request import Pooling, SamplingParams
from stoker.engine.bars import LoadBar, TokenBar
from stoker.engine.batch import Completion, run_batch
from stoker.engine.build import build_engine
from stoker.engine.vectors import check_dimensions, embedding
from stoker.text.chat_template import ChatTemplate
from stoker.text.messages import Message
from stoker.text.tokenizer import load_tokenizer

Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """`LLM().generate("Once upon a time")`.

    The same prompt with the same params gives the same answer, alone or among others: the seed is
    part of `SamplingParams` and 0 by default. Without params the checkpoint's own defaults hold,
    and every prompt gets a new random seed.
    """

    def __init__(
        self,
        model: str = "",
        *,
        kernels: KernelName | None = None,
        max_model_len: int | None = None,
        threads: int | None = None,
        config: EngineConfig | None = None,
    ) -> None:
        """Load `model`: a folder, GGUF file or Hugging Face id; "" is the demo model.

        `config` has every option there is; what is given besides it goes first.

        Raises:
            StartupError: the model cannot be loaded or an option contradicts it.
        """
        config = config or EngineConfig()
        config = replace(
            config,
            model=model or config.model,
            kernels=kernels or config.kernels,
            max_model_len=max_model_len or config.max_model_len,
            threads=threads or config.threads,
        )
        with LoadBar() as bar:
            self._engine = build_engine(config, bar.report)
        self.tokenizer = load_tokenizer(self._engine.checkpoint.tokenizer)

    def generate(
        self,
        prompts: str | Sequence[str] | Sequence[list[int]],
        params: Params = None,
        *,
        progress: bool = True,
    ) -> list[Completion]:
        """Complete one prompt or many, given as texts or as token ids; one Completion for each.

        Raises:
            StokerError: a prompt was refused or failed; the others are aborted.
        """
        if isinstance(prompts, str):
            prompts = [prompts]
        return self._run([self._token_ids(prompt) for prompt in prompts], params, progress)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: Params = None,
        *,
        progress: bool = True,
    ) -> list[Completion]:
        """Answer a conversation, a list of {"role": …, "content": …}, or each of a list of them.

        Raises:
            StokerError: as `generate`; also where the model has no chat template.
        """
        template = self._template
        many: Any = [messages] if messages and isinstance(messages[0], dict) else messages
        return self._run([template.render_to_ids(chat) for chat in many], params, progress)

    def embed(
        self,
        prompts: str | Sequence[str] | Sequence[list[int]],
        *,
        pooling: Pooling = "last",
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> list[list[float]]:
        """A vector for each text or list of token ids: the hidden state of its last token, or the
        mean of all, after the model's last norm; its first `dimensions` numbers, of length 1.

        Raises:
            StokerError: a prompt was refused or failed; the others are aborted.
        """
        if isinstance(prompts, str):
            prompts = [prompts]
        check_dimensions(dimensions, self._engine.info.hidden_size)
        params = SamplingParams(max_tokens=0)
        done = run_batch(
            self._engine.core,
            self._engine.info,
            self.tokenizer,
            [(self._token_ids(prompt), params) for prompt in prompts],
            lambda output: None,
            pooling,
        )
        pooled = [completion.choices[0].embedding or () for completion in done]
        return [embedding(p, dimensions, normalize=normalize).tolist() for p in pooled]

    @cached_property
    def _template(self) -> ChatTemplate:
        source = self.tokenizer.chat_template
        if source is None:
            name = self._engine.checkpoint.name
            raise InvalidRequest(f"{name} has no chat template; use generate()", param="messages")
        return ChatTemplate(source, self.tokenizer)

    def _token_ids(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, add_special_tokens=True)
        if isinstance(prompt, int):
            raise InvalidRequest(
                "prompts is a list of token ids; give a list of such lists", param="prompts"
            )
        return list(prompt)

    def _run(self, prompts: list[list[int]], params: Params, progress: bool) -> list[Completion]:
        each = self._params(params, len(prompts))
        with TokenBar(sum(p.n for p in each), progress) as bar:
            return run_batch(
                self._engine.core,
                self._engine.info,
                self.tokenizer,
                list(zip(prompts, each, strict=True)),
                bar.advance,
            )

    def _params(self, params: Params, num_prompts: int) -> list[SamplingParams]:
        """Params for each prompt."""
        if isinstance(params, SamplingParams):
            return [params] * num_prompts
        if params is None:
            return [self._default_params() for _ in range(num_prompts)]
        if len(params) != num_prompts:
            raise InvalidRequest(
                f"params has {len(params)} entries, but there are {num_prompts} prompts",
                param="params",
            )
        return list(params)

    def _default_params(self) -> SamplingParams:
        defaults = self._engine.checkpoint.generation
        return SamplingParams(
            temperature=defaults.temperature,
            top_k=defaults.top_k,
            top_p=defaults.top_p,
            min_p=defaults.min_p,
            repetition_penalty=defaults.repetition_penalty,
            seed=secrets.randbits(64),
        )
