"""SWIM: membership by probing and gossip, as failure detector under GMS or alone."""
