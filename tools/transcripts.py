"""Rewrite the output of every command in documents: python tools/transcripts.py PAGES"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "project"))

from test_documents import shell, transcripts

for name in sys.argv[1:]:
    page = Path(name)
    text, at = page.read_text(), 0
    with tempfile.TemporaryDirectory() as folder:
        call = shell(Path(folder))
        for line, printed in transcripts(page):
            old = f"$ {line}\n" + (f"{printed}\n" if printed else "")
            at = text.index(old, at)
            real = call(line)
            new = f"$ {line}\n" + (f"{real}\n" if real else "")
            text = text[:at] + new + text[at + len(old) :]
            at += len(new)
    page.write_text(text)
