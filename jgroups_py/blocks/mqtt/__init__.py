"""MQTT: brokers that act as one, for clients of MQTT 3.1.1 and 5.

The packets (`packets.py`), their bytes (`text.py`, `properties.py`, `decoder.py`, `encoder.py`) and the broker's core
are pure: bytes, packets and the clock go in, packets come out. Sockets are in `server.py` alone.
"""
