"""The archive: what members sent, delivered and learnt, as files that Spark (or anything that reads Parquet) can read.

ARCHIVE (protocols/archive/) says what is to be recorded; `recorder` writes it; `reading` reads sealed segments and the
one that is still open alike; `sealing` turns the latter into the former. The format is specified in design/archive.md;
`schema`, `layout` and `framing` are that specification in code. Needs `pip install jgroups_py[archive]`; nothing here
is imported unless an archive is written or read.
"""
