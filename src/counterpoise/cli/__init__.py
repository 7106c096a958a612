"""The command ``counterpoise``."""

import sys


def main() -> None:
    """Run the command, or say how to install what it needs."""
    try:
        from counterpoise.cli.app import run
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "pyarrow", "click"):
            raise
        print(
            f"counterpoise: the command needs {error.name}: pip install 'counterpoise[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    run()
