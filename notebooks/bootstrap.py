# Find the project in this folder or above it, or clone it. Then say "ready".
import importlib.util
import os
import subprocess
import sys
from pathlib import Path


class NotReady(Exception):
    def _render_traceback_(self):  # Jupyter shows only this line
        return [f"not ready: {self} (notebooks/SETUP.md has more)"]


if sys.version_info < (3, 10):
    raise NotReady(f"Python {sys.version.split()[0]} is too old: choose 3.10")
here = Path.cwd()
places = [here, *here.parents]
found = [p for p in places if (p / "notebooks/lessons.py").is_file()]
if not found:  # this notebook is alone, as on Colab
    found = [here / "tokenwise"]
    if not found[0].exists():
        address = os.environ.get("TOKENWISE_REPOSITORY")
        # <repository>
        # </repository>
        if not address:
            raise NotReady("open this notebook inside the project's folder")
        clone = ["git", "clone", "--depth", "1", address, "tokenwise"]
        subprocess.run(clone, check=True)
    needed = ["-r", "tokenwise/notebooks/requirements.txt"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *needed]
    subprocess.run(pip, check=True)  # again, if pip has failed before
os.chdir(found[0] / "notebooks")
sys.path.insert(0, os.getcwd())
needed = "matplotlib numpy regex safetensors threadpoolctl tokenizers".split()
missing = [name for name in needed if not importlib.util.find_spec(name)]
if missing:
    install = "run %pip install -r requirements.txt and restart the kernel"
    raise NotReady(f"{install}, because of {', '.join(missing)}")
print("ready")
