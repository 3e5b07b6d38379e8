"""What an attacker without keys can put on the wire: well-formed frames with edge values, replays, bit flips, floods.

ink.py draws values, pen.py writes headers and frames without the checks of wire.py, forging.py makes whole frames of
what is heard on a wire, attacker.py puts them into a simulated world. tests/fuzz feeds the same frames by the million.
"""
