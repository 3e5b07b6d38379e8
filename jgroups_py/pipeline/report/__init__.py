"""The report: one HTML page with plots, no file beside it needed."""
from jgroups_py.pipeline.report.page import page

__all__ = ["page"]
