import pytest

for _name in ("cases_3_1_1", "cases_5", "cases_of_both", "conformance"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")
