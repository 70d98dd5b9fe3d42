"""`python requirements.py PYPROJECT [EXTRA …]`: what the project and its extras need."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
needed = list(project["dependencies"])
for extra in sys.argv[2:]:
    needed += project["optional-dependencies"][extra]
sys.stdout.write("\n".join(needed) + "\n")
