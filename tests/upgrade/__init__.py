"""A rolling upgrade under load, from the last release (`tox -e upgrade`)."""
