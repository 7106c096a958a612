"""Rewrite the output of every command in documents: python tools/transcripts.py PAGES"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "project")]

from test_documents import databases, shell, transcripts  # noqa: E402

for name in sys.argv[1:]:
    page = Path(name)
    text, at = page.read_text(), 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variables, _ = stack.enter_context(databases(page, folder))
        call = shell(folder, **variables)
        for line, printed in transcripts(page):
            old = f"$ {line}\n" + (f"{printed}\n" if printed else "")
            at = text.index(old, at)
            real = call(line)
            new = f"$ {line}\n" + (f"{real}\n" if real else "")
            text = text[:at] + new + text[at + len(old) :]
            at += len(new)
    page.write_text(text)
