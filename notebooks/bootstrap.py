# Find the project in this folder or above it. If it is not there, clone it.
import os
import subprocess
import sys
from pathlib import Path

here = Path.cwd()
places = [here, *here.parents]
found = [p for p in places if (p / "notebooks/lessons.py").is_file()]
if not found:  # this notebook is alone, as on Colab
    found = [here / "tokenwise"]
    if not found[0].exists():
        address = os.environ.get("TOKENWISE_REPOSITORY")
        # <repository>
        # </repository>
        assert address, "set TOKENWISE_REPOSITORY to the project's address"
        subprocess.run(["git", "clone", address, "tokenwise"], check=True)
    needed = ["-r", "tokenwise/notebooks/requirements.txt"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *needed]
    subprocess.run(pip, check=True)  # again, if pip has failed before
os.chdir(found[0] / "notebooks")
sys.path.insert(0, os.getcwd())
