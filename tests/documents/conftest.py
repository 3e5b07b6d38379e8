"""Pages whose commands take minutes run only when asked for by their marker."""
from tests.spark.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems
