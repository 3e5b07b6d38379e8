"""One file per claim of docs/reference/measured.md: `python -m benchmarks.NAME`, or all of them with `tox -e bench`."""
