"""An interpreter in which what an extra installs cannot be imported."""
from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow                           # an interpreter of its own, in which the two cannot be imported
def test_without_the_libraries_of_memberlist_the_error_names_the_extra_and_all_else_works():
    program = ("import sys; sys.modules.update(msgpack=None, cryptography=None)\n"
               "from jgroups_py.config.load import load; load('udp'); load('membership')\n"
               "from jgroups_py.protocols import KNOWN; [known.load() for known in KNOWN.values()]\n"
               "load('serf')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("messages need msgpack: pip install 'jgroups_py[memberlist]'"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("properties", "what"), [
    ('"dns_record_type": "SRV"', "dns_record_type SRV"), ('"dns_address": "10.0.0.53"', "dns_address")])
def test_without_dnspython_the_system_is_asked_and_the_error_for_the_rest_names_the_extra(properties, what):
    program = ("import sys; sys.modules['dns'] = None\n"
               "from jgroups_py.protocols.discovery.dns_ping import DnsPingConfig\n"
               "import jgroups_py.runtime.name_resolution.resolvers\n"
               "DnsPingConfig(dns_query='chat'); DnsPingConfig(dns_query='chat', dns_record_type='AAAA')\n"
               f"DnsPingConfig(dns_query='chat', **{{{properties}}})")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith(f"{what} needs dnspython: pip install 'jgroups_py[dns]'"), done.stderr


@pytest.mark.slow
def test_the_package_imports_without_spark():
    code = "import sys; sys.modules['pyspark'] = None; import jgroups_py, jgroups_py.pipeline, jgroups_py.cli.pipeline"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_without_msgspec_services_take_and_give_bytes_and_the_error_names_the_extra():
    program = ("import sys; sys.modules['msgspec'] = None\n"
               "import jgroups_py.testing.simulation.applications\n"
               "from jgroups_py.blocks.service import Service, method\n"
               "from jgroups_py.blocks.service.interface import interface_of\n"
               "class Raw(Service, name='raw'):\n"
               "    @method()\n"
               "    def echo(self, data: bytes) -> bytes: return data\n"
               "class Typed(Service, name='typed'):\n"
               "    @method()\n"
               "    def add(self, number: int) -> int: return number\n"
               "assert interface_of(Raw)['echo'].arguments.encode((b'x',), {}) == b'x'\n"
               "interface_of(Typed)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "needs msgspec: pip install 'jgroups_py[typed]'" in done.stderr.strip().splitlines()[-1], done.stderr


@pytest.mark.slow
def test_without_opentelemetry_all_else_works_and_the_error_names_the_extra():
    program = ("import sys; sys.modules['opentelemetry'] = None\n"
               "import jgroups_py as jg\n"
               "from jgroups_py.ops.tracing import Tracing\n"
               "channel = jg.JChannel('udp', name='A')\n"
               "Tracing(channel)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("Tracing needs opentelemetry-api: pip install 'jgroups_py[otel]'"), done.stderr
