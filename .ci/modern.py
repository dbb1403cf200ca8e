"""Put published tokenizers where the tests expect them: python .ci/modern.py SOURCE TARGET

The script copies every SOURCE/FOLDER to TARGET/FOLDER. It also writes a tokenizer.json for qwen3
and one for qwen2.5, both from three files of qwen3: tokenizer-shell.json, vocab.json and
merges.txt.
"""

import json
import shutil
import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:])
for path in source.glob("*/*"):
    folder = target / path.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / path.name)

qwen = target / "qwen3"
file = json.loads((qwen / "tokenizer-shell.json").read_text(encoding="utf-8"))
file["model"]["vocab"] = json.loads((qwen / "vocab.json").read_text(encoding="utf-8"))
lines = (qwen / "merges.txt").read_text(encoding="utf-8").split("\n")
file["model"]["merges"] = [line.split(" ") for line in lines[1:-1]]
(qwen / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
file["added_tokens"] = [token for token in file["added_tokens"] if token["id"] <= 151664]
(target / "qwen2.5" / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
