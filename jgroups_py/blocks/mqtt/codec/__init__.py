"""The packets of MQTT 3.1.1 and 5, and their bytes; pure."""
