"""Golden bytes of the header of NAMES; its payload is a frame of Aeron's (tests/unit/protocols/test_names_res.py)."""
from jgroups_py.protocols.name_service.headers import Resolution

CASES = [(Resolution(), "0019 01 00000000")]
