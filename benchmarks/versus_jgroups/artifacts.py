"""What the Java side needs: a JDK, Maven, the jars at their pinned versions, our driver compiled against each."""
from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import attrs

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
MIN_JAVA = 17
FETCH_TIMEOUT_S = 300
COMPILE_TIMEOUT_S = 120


class MissingError(Exception):
    """Something that the Java side needs is not there; the text says what and where it comes from."""


@attrs.frozen
class Release:
    """A release of JGroups on Maven Central. 5.5.7.Final was the newest 5 when these were pinned."""

    version: str
    sha256: str

    @property
    def major(self) -> int:
        """5 of 5.5.7.Final."""
        return int(self.version.partition(".")[0])

    @property
    def label(self) -> str:
        """As it stands in tables."""
        return f"JGroups {self.version.removesuffix('.Final')}"


RELEASES = {
    "2.12.2": Release("2.12.2.Final", "2c7b55b28fc2ec38711ca644b487f6cfaf53c7acc92c1ea405be06938d92727c"),
    "5": Release("5.5.7.Final", "0280f032a37b1d3c9e2a7c8235a652888d6acb35d43b2fd7d8878c5e9d4b2493"),
}


def java_major(text: str) -> int:
    """Of what `java -version` says.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else 0


def check_tools() -> str:
    """The version of Java.

    Raises:
        MissingError: no JDK of that age, or no Maven.
    """
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise MissingError(f"not on the PATH: {', '.join(missing)}. JGroups needs a JDK of version {MIN_JAVA} or later "
                           "and Maven; on Debian: apt install openjdk-17-jdk-headless maven")
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    if java_major(said) < MIN_JAVA:
        raise MissingError(f"Java {java_major(said)} is too old, {MIN_JAVA} or later is needed: {said.splitlines()[0]}")
    return said.splitlines()[0]


def jar(release: Release) -> Path:
    """The jar, fetched once.

    Raises:
        MissingError: it cannot be had, or it is not the one that was pinned.
    """
    folder = CACHE / "jars"
    path = folder / f"jgroups-{release.version}.jar"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact=org.jgroups:jgroups:{release.version}",
              f"-DoutputDirectory={folder}"], FETCH_TIMEOUT_S)
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "nothing"
    if found != release.sha256:
        path.unlink(missing_ok=True)
        raise MissingError(f"{path.name}: sha256 is {found}, {release.sha256} was pinned; it was removed")
    return path


def classes(release: Release, jar_path: Path) -> Path:
    """Our driver compiled against the jar, once for each state of its sources.

    Raises:
        MissingError: it does not compile.
    """
    api = "jgroups5" if release.major >= 5 else "jgroups2"
    sources = sorted((HERE / "java").glob("*.java")) + sorted((HERE / "java" / api).glob("*.java"))
    state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = CACHE / "classes" / f"{release.version}-{state}"
    if not (folder / "Driver.class").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _run(["javac", "--release", str(MIN_JAVA), "-d", str(folder), "-cp", str(jar_path), *map(str, sources)],
             COMPILE_TIMEOUT_S)
    return folder


def _run(command: list[str], timeout_s: float) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True, cwd=CACHE)
    except subprocess.CalledProcessError as error:
        raise MissingError(f"{' '.join(command[:4])} ... failed: {(error.stdout + error.stderr)[-2000:]}") from None
    except subprocess.TimeoutExpired:
        raise MissingError(f"{' '.join(command[:4])} ... took more than {timeout_s:.0f} s") from None
