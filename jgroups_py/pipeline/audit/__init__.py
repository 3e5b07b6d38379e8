"""The audit: who got what, compared over all recorders. world (facts), delivered (one receiver), owed (what it was to
get), judge (pairs, findings and the verdict), missing (what there is no record of)."""
