"""python .ci/modern.py SOURCE TARGET: lay out published tokenizers for tests/test_tokenizers.py.

Each folder of SOURCE is copied. Qwen's two get their tokenizer.json, whose parts SOURCE has: a file
without vocabulary and merges, vocab.json and merges.txt, all in the folder qwen3.
"""

import json
import shutil
import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:])
shutil.copytree(source, target)
qwen = target / "qwen3"
file = json.loads((qwen / "tokenizer-shell.json").read_text(encoding="utf-8"))
file["model"]["vocab"] = json.loads((qwen / "vocab.json").read_text(encoding="utf-8"))
lines = (qwen / "merges.txt").read_text(encoding="utf-8").split("\n")
file["model"]["merges"] = [line.split(" ") for line in lines[1:-1]]
(qwen / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
file["added_tokens"] = [token for token in file["added_tokens"] if token["id"] <= 151664]
(target / "qwen2.5" / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
