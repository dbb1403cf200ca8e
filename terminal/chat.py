"""A conversation as one text: the checkpoint's own template writes its turns."""

import json
import re
from pathlib import Path
from typing import Any

from loading.errors import UserError


class Conversation:
    """The turns so far, as messages {"role", "content"}. tokenizer, folder: the model's; system:
    what the conversation begins with. UserError for a model without a template."""

    def __init__(self, tokenizer: Any, folder: Path, system: str | None = None):
        config, file = folder / "tokenizer_config.json", folder / "chat_template.jinja"
        found = json.loads(config.read_text("utf-8")) if config.is_file() else {}
        template = file.read_text("utf-8") if file.is_file() else found.get("chat_template")
        if isinstance(template, list):  # several, by name
            template = {entry["name"]: entry["template"] for entry in template}.get("default")
        if not template:
            model = "HuggingFaceTB/SmolLM2-135M-Instruct"
            raise UserError(f"--chat needs a model with a chat template, such as {model}")
        self.tokenizer, self.template, self.messages = tokenizer, compiled(template), []
        names = {name: found.get(name) or "" for name in ("bos_token", "eos_token")}
        self.names = {k: v["content"] if isinstance(v, dict) else v for k, v in names.items()}
        end = tokenizer.special.get(self.names["eos_token"])
        self.stop_ids = () if end is None else (end,)
        if system is not None:
            self.add("system", system)

    def add(self, role: str, text: str) -> None:
        """Take in a turn."""
        self.messages.append({"role": role, "content": self.harmless(text)})

    def ask(self, text: str) -> list[int]:
        """Return the ids that the model answers to: all turns, and the user's with this text."""
        messages = [*self.messages, {"role": "user", "content": self.harmless(text)}]
        try:  # the template is a program of the checkpoint's
            text = self.template.render(messages=messages, add_generation_prompt=True, **self.names)
        except Exception as error:
            raise UserError(f"the model's chat template refuses this: {error}") from None
        start = self.tokenizer.encode("")  # the template itself writes it, if it wants one
        return self.tokenizer.encode(text, special=True)[len(start) :]

    def harmless(self, text: str) -> str:
        """Keep special tokens that somebody types from being read as such: after their first
        character comes a space of no width."""
        names = sorted(self.tokenizer.special, key=len, reverse=True)
        special = "|".join(map(re.escape, names)) or "(?!)"
        return re.sub(special, lambda name: f"{name[0][0]}\u200b{name[0][1:]}", text)


def compiled(template: str) -> Any:
    """Compile a template, which reaches nothing but what it is given."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message):
        raise ValueError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    made.globals["raise_exception"] = raise_exception
    return made.from_string(template)
