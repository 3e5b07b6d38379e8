"""`jgroups mqtt`: an MQTT broker as a process, questions to a running one, its passwords, and what it costs."""
from jgroups_py.cli.mqtt.command import add_parser, run

__all__ = ["add_parser", "run"]
