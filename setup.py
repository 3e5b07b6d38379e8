"""Packages are found, and the stack files at the top of the repository are installed as jgroups_py/stacks."""
import re
from pathlib import Path

from setuptools import find_packages, setup

RELATIVE_LINK = re.compile(r"!?\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def readme() -> str:
    """README.md for a package index, where relative links would lead nowhere: each becomes its text, as do pictures."""
    return RELATIVE_LINK.sub(r"\1", Path("README.md").read_text(encoding="utf-8"))


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    packages=[*find_packages(include=["jgroups_py", "jgroups_py.*"]), "jgroups_py.stacks"],
    package_dir={"jgroups_py.stacks": "stacks"},
    package_data={"jgroups_py": ["py.typed"], "jgroups_py.ops": ["files/*"], "jgroups_py.ops.live": ["live.html"],
                  "jgroups_py.stacks": ["*.xml", "*.yaml", "parts/*.xml"]},
)
