"""The archive: messages that members sent and delivered, and facts that they recorded, as Parquet files.

ARCHIVE (protocols/archive/) emits records; `recorder` writes them into an open segment; `sealing` makes Parquet files
of full segments; `reading` reads sealed and open ones alike. The format is specified in design/archive.md;
`schema`, `layout` and `framing` are that specification in code. Needs `pip install jgroups_py[archive]`; nothing here
is imported unless an archive is written or read.

Ring 4.
"""
