"""The data pipeline on Spark: what the members of a group recorded, checked, measured and shown.

Needs the extra `jgroups_py[spark]`. See design/pipeline.md.

Ring 6.
"""
