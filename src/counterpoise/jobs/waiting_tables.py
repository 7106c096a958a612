"""The tables of events that wait; docs/file-format.md says what is in them."""

TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inputs (
    key TEXT PRIMARY KEY, rows INTEGER, size INTEGER, hash TEXT, cut INTEGER, starts TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    n INTEGER PRIMARY KEY, source TEXT NOT NULL, first INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    id TEXT PRIMARY KEY, batch INTEGER, place INTEGER, claim TEXT, at INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_batch ON events (batch) WHERE batch IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_claim ON events (claim) WHERE claim IS NOT NULL;
"""
