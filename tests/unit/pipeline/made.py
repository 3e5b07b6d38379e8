"""Made archives as spans, for tests without Spark."""
from pathlib import Path

import pyarrow as pa

from jgroups_py.archive.layout import recorders
from jgroups_py.archive.reading import read
from jgroups_py.pipeline import seqno_ranges as spans
from jgroups_py.pipeline.synthetic import Fault, SyntheticPlan, make

FAULT_OF_PLANTED = {"lost": "lost", "r3_lost": "lost", "doubled": "duplicated", "r3_doubled": "duplicated",
                    "out_of_order": "out_of_order", "r4_order": "out_of_order", "declared_lost": "declared_lost",
                    "skipped": "skipped", "skipped_relayed": "skipped"}


def folded(directory: Path, batch_rows: int = 4096) -> pa.Table:
    """The spans of an archive."""
    found = [spans.digest(batch) for recorder in recorders(directory)
             for batch in read(directory, recorder, columns=spans.COLUMNS, batch_rows=batch_rows)]
    return spans.fold(found)


def findings_of(faults: list[Fault]) -> list[tuple[str, str, str, int, int]]:
    """The audit's findings about planted faults: (fault, origin, receiver, first, stop)."""
    found = []
    for fault in faults:
        if fault.kind != "other_set":
            stop = fault.first + 1 if "order" in fault.kind else fault.stop        # only the first one comes late
            found += [(FAULT_OF_PLANTED[fault.kind], fault.origin.name, receiver.incarnation, fault.first, stop)
                      for receiver in fault.receivers]
    return sorted(found)


def archive(directory: Path, **options: object) -> list[Fault]:
    """Make a small one; what was planted."""
    return make(directory, SyntheticPlan(**{"payload_bytes": 0, "rate": 2000, "segment_rows": 5000, **options}))
