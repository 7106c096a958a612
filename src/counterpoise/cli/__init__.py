"""The command ``counterpoise``."""

import gc
import os
import sys

MIN_NEW_OBJECTS = 50_000  # from one collection of cycles to the next


def main() -> None:
    """Run the command, or print how to install its dependencies."""
    _open_standard()
    # Imports create many objects and few cycles: collections would take a thirtieth of the start.
    gc.set_threshold(MIN_NEW_OBJECTS)
    if "predict" in sys.argv[1:2] and "numpy" not in sys.modules:
        # Its products are small: waiting threads would cost more time than they save.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from counterpoise.cli.app import run
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "pyarrow", "click"):
            raise
        print(
            f"counterpoise: the command requires {error.name}: pip install 'counterpoise[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    run()


def _open_standard() -> None:
    """Open closed standard streams, so that no other file gets their numbers.

    Reading from a closed standard input and writing to a closed standard output remain errors.
    Messages to a closed standard error are lost.
    """
    for number, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
