# Find the project in this folder or above it. If it is not there, clone it.
import os
import subprocess
import sys
from pathlib import Path

here = Path.cwd()
places = [here, *here.parents, here / "tokenwise"]
found = [p for p in places if (p / "notebooks/lessons.py").is_file()]
if not found:  # this notebook is alone, as on Colab
    address = os.environ.get("TOKENWISE_REPOSITORY")
    assert address, "set TOKENWISE_REPOSITORY to the project's address"
    subprocess.run(["git", "clone", address, "tokenwise"], check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "-r"]
    needed = "tokenwise/notebooks/requirements.txt"
    subprocess.run([*pip, needed], check=True)
    found = [here / "tokenwise"]
os.chdir(found[0] / "notebooks")
sys.path.insert(0, os.getcwd())
