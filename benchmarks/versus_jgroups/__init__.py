"""jgroups_py beside JGroups in one run: `python -m benchmarks.versus_jgroups`; see README.md."""
