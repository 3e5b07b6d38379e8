"""Packages are found, and the stack files at the top of the repository are installed as jgroups_py/stacks."""
from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["jgroups_py", "jgroups_py.*"]), "jgroups_py.stacks"],
    package_dir={"jgroups_py.stacks": "stacks"},
    package_data={"jgroups_py": ["py.typed"], "jgroups_py.ops": ["files/*"], "jgroups_py.ops.live": ["live.html"],
                  "jgroups_py.stacks": ["*.xml", "*.yaml", "parts/*.xml"]},
)
