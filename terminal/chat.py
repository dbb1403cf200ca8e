"""A conversation, which the checkpoint's own chat template turns into a single text."""

import re
from pathlib import Path
from typing import Any

from loading.config import read_json
from loading.errors import UserError


class Conversation:
    """The turns so far, as messages {"role", "content"}. tokenizer and folder: those of the model;
    system: the system message, or None. Raises UserError if the model has no template."""

    def __init__(self, tokenizer: Any, folder: Path, system: str | None = None):
        config = read_json(folder / "tokenizer_config.json", optional=True)
        file = folder / "chat_template.jinja"
        template = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
        if isinstance(template, list):  # several named templates
            template = {entry["name"]: entry["template"] for entry in template}.get("default")
        if not template:
            other = "HuggingFaceTB/SmolLM2-135M-Instruct"
            raise UserError(f"this model has no chat template: use a model such as {other}")
        self.tokenizer, self.template, self.messages = tokenizer, template, list[dict]()
        names = {name: config.get(name) or "" for name in ("bos_token", "eos_token")}
        self.names = {k: v["content"] if isinstance(v, dict) else v for k, v in names.items()}
        end = tokenizer.special.get(self.names["eos_token"])
        self.stop_ids = () if end is None else (end,)
        if system is not None:
            self.add("system", system)

    def add(self, role: str, text: str) -> None:
        """Add a turn. In its text, a zero-width space makes each special token plain text."""
        names = sorted(self.tokenizer.special, key=len, reverse=True)
        special = "|".join(map(re.escape, names)) or "(?!)"
        text = re.sub(special, lambda name: f"{name[0][0]}\u200b{name[0][1:]}", text)
        self.messages.append({"role": role, "content": text})

    def ask(self, text: str) -> list[int]:
        """Return the ids that the model continues: all turns so far, then the user's text."""
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def raise_exception(message):
            raise ValueError(message)

        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        self.add("user", text)
        names = self.names | {"raise_exception": raise_exception, "add_generation_prompt": True}
        try:  # a template is code, and may raise any error
            text = jinja.from_string(self.template).render(messages=self.messages, **names)
        except Exception as error:
            raise UserError(f"the model's chat template refuses this: {error}") from None
        finally:
            self.messages.pop()
        start = self.tokenizer.encode("")  # BOS, if any: drop it, as templates add their own
        return self.tokenizer.encode(text, special=True)[len(start) :]
