"""A conversation as one text: its turns in the format that the model was trained on.

The format is recognised by its tokens. Its special tokens are never read out of what a user types.
"""

from collections.abc import Iterator
import re
from typing import Any, NamedTuple

from batching import Prefill
from generate import Sequence, draw_next
from interface import Ids, Model
from loading.errors import UserError


class Format(NamedTuple):
    """tokens: those that the format is recognised by. system, user: a turn, with {} for its text;
    the user's ends where the answer begins. end: the token that ends an answer; after: the text
    between it and the next turn. default: the system text where none is given. strips: no white
    space around a text. Without a format for it, a system text comes before the user's first."""

    tokens: str
    user: str
    end: str
    after: str = ""
    system: str = ""
    default: str = ""
    strips: bool = False


CHATML = Format("<|im_start|>", "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
                "<|im_end|>", "\n", "<|im_start|>system\n{}<|im_end|>\n")  # fmt: skip
FORMATS = [  # the first one counts whose tokens the vocabulary has; source: the models' templates
    CHATML._replace(tokens="<|im_start|> <think>"),  # Qwen 3, SmolLM 3
    CHATML._replace(tokens="<|im_start|> <tool_call>", default="You are Qwen, created by Alibaba"
                    " Cloud. You are a helpful assistant."),  # Qwen 2.5
    CHATML._replace(tokens="<|im_start|> <empty_output>", default="You are a helpful AI assistant"
                    " named SmolLM, trained by Hugging Face"),  # SmolLM 2
    CHATML._replace(default="You are a helpful assistant."),  # Qwen 2
    Format("<|start_header_id|>", "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>",
           system="<|start_header_id|>system<|end_header_id|>\n\n{}<|eot_id|>",
           strips=True),  # Llama 3
    Format("<start_of_turn>", "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
           "<end_of_turn>", "\n", strips=True),  # Gemma
    Format("[INST] [/INST]", "[INST] {}[/INST]", "</s>"),  # Mistral, from v0.3
    Format("<s> </s>", "<|user|>\n{}</s>\n<|assistant|>\n", "</s>", "\n",
           "<|system|>\n{}</s>\n"),  # TinyLlama, Zephyr
]  # fmt: skip


class Conversation:
    """The turns so far, as ids. tokenizer: an encoder.Tokenizer; system: the text that the
    conversation begins with, by default the format's. UserError for a model without a known
    format."""

    def __init__(self, tokenizer: Any, system: str | None = None):
        vocab = {token: id for id, token in enumerate(tokenizer.tokens)}
        self.vocab = vocab
        found = [form for form in FORMATS if vocab.keys() >= {*form.tokens.split()}]
        if not found:
            raise UserError("--chat needs a model trained on conversations, such as"
                            " HuggingFaceTB/SmolLM2-135M-Instruct: this one's vocabulary has no"
                            " <|im_start|>, [INST], ...")  # fmt: skip
        self.tokenizer, self.format, self.ids = tokenizer, found[0], Ids()
        self.system = self.format.default if system is None else system
        self.end = vocab[self.format.end]

    def ask(self, text: str) -> Ids:
        """The ids that the model answers to: the turns so far, and the user's with this text."""
        form, system = self.format, self.system
        if form.strips:
            text, system = text.strip(), system.strip()
        if self.ids:
            return self.ids + self._encode((form.after + form.user, text), first=False)
        if system and form.system:
            return self._encode((form.system, system), (form.user, text), first=True)
        return self._encode((form.user, f"{system}\n\n{text}" if system else text), first=True)

    def answered(self, ids: Ids, answer: Ids) -> None:
        """Take in the ids that the model answered to, and its answer without a stop id."""
        think = self.vocab.get("</think>")
        if think in answer:  # Qwen 3: what was thought is left out of the turns that follow
            text = self.tokenizer.decode(answer[len(answer) - answer[::-1].index(think) :])
            answer = self.tokenizer.encode(text.lstrip("\n"), first=False)
        self.ids = [*ids, *answer, self.end]

    def _encode(self, *turns: tuple[str, str], first: bool) -> Ids:
        """(format, text) of each turn -> ids. Special tokens are those of the formats only."""
        parts: list[str | int] = [""]
        for form, text in turns:
            before, after = form.split("{}")
            for piece, added in (
                (before, self.tokenizer.special),
                (text, {}),
                (after, self.tokenizer.special),
            ):
                for part in split(piece, added):
                    if isinstance(part, str) and isinstance(parts[-1], str):
                        parts[-1] += part  # a word may begin in the format and end in the text
                    else:
                        parts.append(part)
        ids = Ids()
        for i, part in enumerate(parts):
            if isinstance(part, str):
                ids += self.tokenizer.encode(part, first=first and i == 0)
            else:
                ids.append(part)
        return ids


def split(text: str, special: dict[str, int]) -> list[str | int]:
    """The text around the special tokens in it, and their ids in turn."""
    names = "|".join(map(re.escape, sorted(special, key=len, reverse=True))) or "(?!)"
    return [special[part] if i % 2 else part for i, part in enumerate(re.split(f"({names})", text))]


def kept(
    prefill: Prefill, model: Model, sequences: list[Sequence]
) -> Iterator[tuple[Sequence, int]]:
    """A loop like `cached` for one text after the other. Where a text begins as the one before it,
    the keys and values of that beginning are not computed again."""
    [sequence] = sequences
    while sequence.running:
        prefill.begin(sequence)
        logits: Any = prefill.step(len(sequence.ids))
        yield from draw_next(sequences, logits)
