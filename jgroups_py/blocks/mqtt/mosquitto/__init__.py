"""An unmodified mosquitto as part of a federation: the link, and what its clients want."""
