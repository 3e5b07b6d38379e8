"""The audit: who got what, compared over all recorders. world (facts), delivered (one receiver), owed (what it was to
get), judge (the verdict)."""
