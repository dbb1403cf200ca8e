"""`pip install .` runs this file, which says that there is nothing to install."""

raise SystemExit("tokenwise is not a package: stay in its folder, and run python generate.py there")
