import pytest

for _name in ("cases_3_1_1", "cases_5", "conformance"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")
