"""Run import-linter on the sources.

An editable install answers for the package with a virtual path that import-linter cannot walk,
so its finder is put aside first.
"""

import sys

from importlinter.cli import lint_imports

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, "src")
sys.exit(lint_imports(no_cache=True))
