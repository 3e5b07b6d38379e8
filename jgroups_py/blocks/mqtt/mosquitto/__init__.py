"""An unmodified mosquitto as part of a federation: the link to it, and the interest of its clients."""
