"""VERIFY_SUSPECT: see protocol.py and design/protocols/verify_suspect.md."""
from jgroups_py.protocols.verify_suspect.protocol import VerifySuspect

__all__ = ["VerifySuspect"]
