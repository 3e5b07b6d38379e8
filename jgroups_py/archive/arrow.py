"""Imports pyarrow for this package; without it there is an error that names the extra to install."""
from __future__ import annotations

from jgroups_py.model.errors import ConfigError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise ConfigError(f"the archive needs pyarrow ({error}): pip install 'jgroups_py[archive]'") from None

__all__ = ["pa", "pc", "pq"]
