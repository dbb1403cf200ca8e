"""Continue a prompt greedily by 100 tokens with transformers, as its users do.

    python benchmarks/whole.py FOLDER PROMPT

It imports nothing of tokenwise, so that benchmark.py can time the whole command.
"""

import sys

from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer


class Printer(TextStreamer):
    """Prints each token at once. TextStreamer itself waits for the next space."""

    def put(self, ids):  # first the prompt [1, n_prompt], then each token [1]
        if ids.ndim == 1:
            print(self.tokenizer.decode(ids), end="", flush=True)


folder, prompt = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
ids = tokenizer(prompt, return_tensors="pt")
model.generate(**ids, max_new_tokens=100, do_sample=False, streamer=Printer(tokenizer))
