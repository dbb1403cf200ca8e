"""A conversation, which the checkpoint's own chat template turns into a single text."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from loading.config import read_json
from loading.errors import MALFORMED, UserError, explained


class Conversation:
    """The turns so far, as messages {"role", "content"}. tokenizer and folder: those of the model;
    system: the system message, or None. Raises UserError if the model has no template."""

    def __init__(self, tokenizer: Any, folder: Path, system: str | None = None):
        with explained(f"the chat template in {folder} is damaged", "fetch it again", MALFORMED):
            config = read_json(folder / "tokenizer_config.json", optional=True)
            template, file = config.get("chat_template"), folder / "chat_template.jinja"
            if file.is_file():
                template = file.read_text("utf-8")
            if isinstance(template, list):  # several named templates
                template = {entry["name"]: entry["template"] for entry in template}.get("default")
            # {% generation %} marks the answers, for training: any block will do.
            template = re.sub(r"({%[-+]?\s*(?:end)?)generation\b", r"\1with", template or "")
            names = {k: token for k, token in config.items() if k.endswith("_token") and token}
            self.names = {k: t["content"] if isinstance(t, dict) else t for k, t in names.items()}
            end = tokenizer.special.get(self.names.get("eos_token"))
            self.stop_ids = () if end is None else (end,)
        if not template:
            other = "HuggingFaceTB/SmolLM2-135M-Instruct"
            raise UserError(f"this model has no chat template: use a model such as {other}")
        self.tokenizer, self.template, self.messages = tokenizer, template, list[dict]()
        if system is not None:
            self.add("system", system)

    def add(self, role: str, text: str) -> None:
        """Add a turn. In what a user typed, a zero-width space makes special tokens plain text."""
        for name in self.tokenizer.special if role != "assistant" else ():
            text = text.replace(name, f"{name[0]}\u200b{name[1:]}")
        self.messages.append({"role": role, "content": text})

    def ask(self, text: str) -> list[int]:
        """Return the ids that the model continues: all turns so far, then the user's text."""
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def raise_exception(message):
            raise ValueError(message)

        def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
            layout = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
            return json.dumps(value, ensure_ascii=ensure_ascii, **layout)

        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        jinja.filters["tojson"] = tojson  # Jinja's is for HTML
        names = self.names | dict(add_generation_prompt=True, tools=None, documents=None)
        names |= dict(raise_exception=raise_exception, strftime_now=datetime.now().strftime)
        self.add("user", text)
        messages, self.messages = self.messages, self.messages[:-1]
        # A template is code, and may raise any error.
        with explained("the chat template refuses this", "use another model", (Exception,)):
            text = jinja.from_string(self.template).render(messages=messages, **names)
        start = self.tokenizer.encode("")  # BOS, if any: drop it, as templates add their own
        return self.tokenizer.encode(text, special=True)[len(start) :]
