"""Starts Spark for all jobs: settings for loopback, a fast start, workers that can import this package.

`local[*]` by default; `spark://host:port` is a standalone master. All properties on which the jobs rely are in
`settings()`, for programs that make a session of their own.
"""
from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import jgroups_py
from jgroups_py.pipeline.java import class_data_options, find_java
from jgroups_py.pipeline.optional_dependency import require
from jgroups_py.system.filesystem import private_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
ARROW_ROWS = 131_072               # rows of one Arrow batch that a Python worker gets
DRIVER_MEMORY = "1g"
EXECUTOR_MEMORY = "600m"           # Java's share of a worker: digests are made in Python, beside it
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
RENAMING_CHECKPOINTS = ("org.apache.spark.sql.execution.streaming.checkpointing."
                        "FileSystemBasedCheckpointFileManager")
QUIET = ("-XX:+UseSerialGC", "-Xss8m", "-XX:-UsePerfData")
"""-Xss: java.util.regex overflows the default stack on the long error text of a stopped query."""


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine alone.

    >>> is_local("local[2]"), is_local("spark://10.0.0.1:7077")
    (True, False)
    """
    return master.startswith("local")


def driver_address(master: str) -> str:
    """The address at which workers reach the driver: loopback, unless the master is elsewhere.

    >>> driver_address("local[*]"), driver_address("spark://127.0.0.1:7077")
    ('127.0.0.1', '127.0.0.1')
    """
    if is_local(master):
        return LOOPBACK
    host = master.partition("://")[2].partition(",")[0].rpartition(":")[0].strip("[]") or LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:      # sends nothing: finds the local address
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


def settings(master: str = "local[*]") -> dict[str, str]:
    """Spark's properties for the jobs of this package."""
    address = driver_address(master)
    found = {
        "spark.master": master,
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4" if is_local(master) else "16",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.streaming.checkpointFileManagerClass": RENAMING_CHECKPOINTS,
        "spark.sql.warehouse.dir": str(private_folder("jgroups-warehouse")),
        "spark.executorEnv.PYTHONPATH": python_path(),
        "spark.log.level": "ERROR",
    }
    return found


def python_path() -> str:
    """PYTHONPATH for workers, which import this package as the functions that they run are pickled by reference."""
    package = str(Path(jgroups_py.__file__).resolve().parent.parent)
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))


def start(master: str = "local[*]", name: str = "jgroups", more: Mapping[str, str] | None = None) -> SparkSession:
    """A new session, or the active one if there is one. more: additional properties of Spark.

    Raises:
        SparkMissingError: PySpark, PyArrow or Java is not installed.
    """
    for module in ("pyspark", "pyarrow", "pandas"):
        require(module)
    from pyspark.sql import SparkSession
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    prepare_environment(master)
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings(master), "spark.driver.extraJavaOptions": java_options(), **(more or {})}.items():
        builder = builder.config(key, value)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with silent_start():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def prepare_environment(master: str) -> None:
    """Set the environment variables that Spark reads."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["SPARK_LOCAL_IP"] = driver_address(master)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = python_path()
    os.environ.pop("SPARK_HOME", None)                      # another Spark's jars do not fit this PySpark


def java_options() -> str:
    """Options of the driver's Java, as one text."""
    jars = Path(require("pyspark").__file__).parent / "jars"
    return " ".join([*QUIET, *class_data_options(find_java(), jars)])


@contextmanager
def silent_start() -> Iterator[None]:
    """Hold back what Java writes to stderr while it starts (notices about modules, logging); show it if that fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, suppress(OSError):
        kept = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            held.seek(0)
            sys.stderr.write(held.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
