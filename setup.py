"""Packages are found, and the stack files at the top of the repository are installed as jgroups_py/stacks.

With JGROUPS_COMPILE=1 in the environment mypyc compiles the modules of jgroups_py/system/builds.py: that takes a C
compiler.
"""
import os
import re
import runpy
from pathlib import Path

from setuptools import find_packages, setup

RELATIVE_LINK = re.compile(r"!?\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def readme() -> str:
    """README.md for a package index, where relative links would lead nowhere: each becomes its text, as do pictures."""
    return RELATIVE_LINK.sub(r"\1", Path("README.md").read_text(encoding="utf-8"))


def compiles() -> bool:
    asked = os.environ.get("JGROUPS_COMPILE", "") or "0"
    if asked not in ("0", "1"):
        raise SystemExit(f"JGROUPS_COMPILE is {asked!r}; 1 compiles some modules, 0 none")
    return asked == "1"


def extensions() -> list:
    from mypyc.build import mypycify

    names = runpy.run_path("jgroups_py/system/builds.py")["MODULES"]
    paths = [name.replace(".", "/") + ".py" for name in names]
    return mypycify(["--config-file=", "--follow-imports=silent", "--ignore-missing-imports", *paths],
                    opt_level="3", debug_level="0", group_name="jgroups_py")


setup(
    ext_modules=extensions() if compiles() else [],
    setup_requires=["mypy>=1.18", "attrs>=24"] if compiles() else [],
    long_description=readme(),
    long_description_content_type="text/markdown",
    packages=[*find_packages(include=["jgroups_py", "jgroups_py.*"]), "jgroups_py.stacks"],
    package_dir={"jgroups_py.stacks": "stacks"},
    package_data={"jgroups_py": ["py.typed"], "jgroups_py.ops": ["files/*"], "jgroups_py.ops.live": ["live.html"],
                  "jgroups_py.stacks": ["*.xml", "*.yaml", "parts/*.xml"]},
)
