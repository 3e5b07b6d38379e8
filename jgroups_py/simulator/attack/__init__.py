"""The attacker of the simulator: well-formed frames with edge values, replays, bit flips, floods.

value_pool.py draws values, frame_writer.py writes headers and frames without the checks of wire/frame.py, forging.py
makes whole frames from frames read on a wire, attacker.py injects them into a simulated world; sealed.py is an attacker
of sealed frames, without keys. tests/fuzz injects millions of the same frames.
"""
