"""The report: one self-contained HTML page with plots."""
from jgroups_py.pipeline.report.page import page

__all__ = ["page"]
