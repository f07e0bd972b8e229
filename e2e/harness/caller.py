"""The official client, with a tally of what it was answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types import CompletionUsage, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion

from .configuration import Configuration
from .tally import Charge, Part, Tally
from .tenants import Key

PROMPT = "What does a tallyweir do?"


def request(prompt: str, model: str, mock: str | None, tokens: int | None, more: dict) -> dict[str, Any]:
    """Arguments for `chat.completions.create`."""
    words = [word for word in (mock, f"tokens={tokens}" if tokens is not None else None) if word]
    arguments: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": prompt}], **more}
    if words:
        arguments["metadata"] = {"mock": ",".join(words)}
    if tokens is not None:
        arguments.setdefault("max_tokens", tokens)
    return arguments


@dataclass
class Streamed:
    """What a stream brought."""

    request_id: str
    headers: Any
    texts: list[str] = field(default_factory=list)
    usage: CompletionUsage | None = None
    finish_reason: str | None = None


def cached_tokens(usage: CompletionUsage) -> int:
    details = usage.prompt_tokens_details
    return (details.cached_tokens or 0) if details else 0


class Caller:
    """Calls as a client would and keeps the tally. It retries nothing unless told."""

    def __init__(
        self,
        url: str,
        key: Key,
        tally: Tally,
        configuration: Configuration,
        max_retries: int = 0,
        timeout: float = 20.0,
    ):
        self.key = key
        self.tally = tally
        self.configuration = configuration
        self.openai = openai.OpenAI(
            api_key=key.secret, base_url=f"{url}/v1", max_retries=max_retries, timeout=timeout
        )

    def chat(
        self,
        prompt: str = PROMPT,
        model: str = "small",
        mock: str | None = None,
        tokens: int | None = None,
        **more: Any,
    ) -> ChatCompletion:
        return self.chat_with_headers(prompt, model, mock, tokens, **more)[0]

    def chat_with_headers(
        self,
        prompt: str = PROMPT,
        model: str = "small",
        mock: str | None = None,
        tokens: int | None = None,
        **more: Any,
    ) -> tuple[ChatCompletion, Any]:
        try:
            raw = self.openai.chat.completions.with_raw_response.create(
                **request(prompt, model, mock, tokens, more)
            )
        except openai.APIStatusError as error:
            self.tally.refusal(error.request_id)
            raise
        answer = raw.parse()
        self.count_usage(raw.headers["x-request-id"], model, answer.usage)
        return answer, raw.headers

    def embed(self, texts: Any, model: str = "vector", **more: Any) -> CreateEmbeddingResponse:
        try:
            raw = self.openai.embeddings.with_raw_response.create(model=model, input=texts, **more)
        except openai.APIStatusError as error:
            self.tally.refusal(error.request_id)
            raise
        answer = raw.parse()
        self.count(raw.headers["x-request-id"], model, answer.usage.prompt_tokens, 0, 0)
        return answer

    def stream(
        self,
        prompt: str = PROMPT,
        model: str = "small",
        mock: str | None = None,
        tokens: int | None = None,
        leave_after: int | None = None,
        on_first=None,
        **more: Any,
    ) -> Streamed:
        """Reads a stream to its end, or leaves after so many tokens. What a client without usage counts is its tokens: each
        chunk with text is one, and the prompt's are the mock's to tell."""
        arguments = request(prompt, model, mock, tokens, {**more, "stream": True})
        try:
            raw = self.openai.chat.completions.with_raw_response.create(**arguments)
        except openai.APIStatusError as error:
            self.tally.refusal(error.request_id)
            raise
        got = Streamed(raw.headers["x-request-id"], raw.headers)
        whole = False
        try:
            with raw.parse() as chunks:
                for chunk in chunks:
                    if chunk.usage is not None:
                        got.usage = chunk.usage
                    for choice in chunk.choices:
                        if choice.delta.content:
                            got.texts.append(choice.delta.content)
                            if on_first is not None and len(got.texts) == 1:
                                on_first()
                        got.finish_reason = choice.finish_reason or got.finish_reason
                    if leave_after is not None and len(got.texts) >= leave_after:
                        return got
                whole = True
        finally:
            if whole and got.usage is not None:
                self.count_usage(got.request_id, model, got.usage)
            else:
                self.tally.part(Part(got.request_id, self.key.id, model, len(got.texts), whole))
        return got

    def count_usage(self, request_id: str, model: str, usage: CompletionUsage) -> None:
        self.count(request_id, model, usage.prompt_tokens, cached_tokens(usage), usage.completion_tokens)

    def count(self, request_id: str, model: str, prompt: int, cached: int, completion: int) -> None:
        cost = self.configuration.cost(model, prompt, cached, completion)
        self.tally.whole(
            Charge(request_id, self.key.id, model, prompt, cached, completion, "success", cost)
        )
