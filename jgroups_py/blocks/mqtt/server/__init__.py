"""A broker on sockets: listeners (TCP, TLS, WebSocket), configuration files, the HTTP interface."""
from jgroups_py.blocks.mqtt.server.server import MqttServer

__all__ = ["MqttServer"]
