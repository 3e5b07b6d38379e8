"""The core of one broker: packets and the clock in, packets out (broker.py)."""
