"""pip runs this file for `pip install .`; it says that there is nothing to install."""

raise SystemExit("tokenwise is no package: stay in its folder, and run python generate.py there")
