"""One file per claim of the README: `python -m benchmarks.NAME`, or all of them with `tox -e bench`."""
