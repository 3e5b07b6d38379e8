"""MQTT: brokers that act as one, for clients of MQTT 3.1.1 and 5.

    codec/        packets and their bytes
    broker/       the broker's core: sessions, subscriptions, retained messages
    federation/   brokers of a group as one broker
    gmqtt/        a broker among unmodified gmqttd
    mosquitto/    the clients of an unmodified mosquitto in a federation
    server/       sockets, configuration, HTTP
    node/         all of these as a configuration file says

All but the files that tests/test_architecture.py names as adapters is pure: bytes, packets and the clock go in, packets
come out. design/mqtt.md.
"""
