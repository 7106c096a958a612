"""Print constraints: the lowest version of each dependency of the core and the shell."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *extras["cli"]]:
    needed = Requirement(line)
    for bound in needed.specifier:
        if bound.operator == ">=":
            print(f"{needed.name}=={bound.version}")
