"""`jgroups mqtt serve` as a process: how it begins and ends."""
from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from jgroups_py.cli import main
from jgroups_py.system.free_ports import free_range
from tests.runtime.mqtt.processes import Subscriber, publish, serving

pytestmark = pytest.mark.real


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_ends_it_and_clients_are_told(number, loop):
    with serving("--host", "127.0.0.1", "--port", "0", "--loop", loop) as broker, \
            Subscriber(broker.port, "t", "-V", "5") as sub:
        assert broker.end(number) == (0, "stopped\n")
        assert sub.process.stdout is not None
        assert any("DISCONNECT (139)" in line or "shutting down" in line.lower() for line in sub.process.stdout)


def test_a_port_in_use_is_told_and_the_exit_code_is_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([sys.executable, "-m", "jgroups_py", "mqtt", "serve", "--host", "127.0.0.1", "--port",
                               str(port)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"port {port} is in use by another process" in done.stderr


def test_passwords_and_rules(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", open_stdin("secret\n", tmp_path))
    assert main(["mqtt", "password", "ann"]) == 0
    (tmp_path / "passwords").write_text(capsys.readouterr().out)
    (tmp_path / "rules").write_text("allow ann both open/#\n")
    file = tmp_path / "node.yml"
    file.write_text(f"""\
listeners: [{{address: "127.0.0.1:0"}}]
plugins:
  auth: {{hash: scrypt, password_file: {tmp_path}/passwords, rules_file: {tmp_path}/rules}}
plugin_order: [auth]
""")
    right = ("-u", "ann", "-P", "secret")
    with serving("-c", str(file)) as broker:
        with Subscriber(broker.port, "open/#", "-C", "1", *right) as sub:
            publish(broker.port, "closed", "no", *right)
            publish(broker.port, "open/door", "yes", *right)
            assert sub.lines() == ["yes"]
        for wrong in (("-u", "ann", "-P", "other"), ("-u", "bob", "-P", "secret"), ()):
            with pytest.raises(AssertionError, match="bad user name or password"):
                publish(broker.port, "open/door", "no", *wrong)


def open_stdin(text: str, folder):
    """A stdin with this text."""
    path = folder / "stdin"
    path.write_text(text)
    return path.open()


@pytest.mark.parametrize(("text", "problem"), [
    ("mqtt: {maximum_qos: 9}\n", "node.yml:1: mqtt.maximum_qos: '9' is out of range: 0 to 2"),
    ("listeners: [{address: ':0', tls: {cert_file: no.pem, key_file: no.pem}}]\n",
     "TLS: certificate 'no.pem' with key 'no.pem': No such file"),
    ("plugins: {auth: {password_file: none.yml}}\nplugin_order: [auth]\n", "none.yml: No such file"),
])
def test_what_is_wrong_with_a_file_is_told_and_the_exit_code_is_2(text, problem, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.yml").write_text(text)
    assert main(["mqtt", "serve", "-c", "node.yml"]) == 2
    assert problem in capsys.readouterr().err


def test_check_shows_listeners_and_warnings(tmp_path, capsys):
    file = tmp_path / "node.yml"
    file.write_text("listeners: [{address: ':1883'}]\npid_file: x\n")
    assert main(["mqtt", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"warning: {file}:2: pid_file has no effect here\nmqtt://*:1883\n"


def test_check_shows_rest_and_reads_the_stack_of_the_group(tmp_path, capsys):
    file = tmp_path / "node.yml"
    text = ("api: {http: [{address: '127.0.0.1:8083'}]}\n"
            "plugins: {federation: {stack: %s}}\nplugin_order: [federation]\n")
    file.write_text(text % "tcp")
    assert main(["mqtt", "check", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "http://127.0.0.1:8083"
    file.write_text(text % "tpc")
    assert main(["mqtt", "check", str(file)]) == 2
    assert "'tpc': is neither a path that ends in" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["batched", "single"])
@pytest.mark.parametrize("qos", ["0", "1"])
def test_bench_measures_a_running_broker(pattern, qos, capsys):
    with serving("--host", "127.0.0.1", "--port", "0") as broker:
        assert main(["mqtt", "bench", "--port", str(broker.port), "--pid", str(broker.process.pid), "--pattern",
                     pattern, "--qos", qos, "--messages", "2000", "--rounds", "1"]) == 0
    line = capsys.readouterr().out
    messages = int(line.partition(" messages, ")[0])
    assert 2_000 <= messages < 2_100
    assert " us of the broker's processor a message" in line


def test_bench_without_a_broker_says_so(capsys):
    port = free_range()
    assert main(["mqtt", "bench", "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}: " in capsys.readouterr().err
