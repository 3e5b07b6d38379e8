"""The audit: the messages that each member delivered, compared over all recorders. world: the facts; delivered: the
deliveries of one receiver; owed: the messages due to it; judge: pairs, findings and the verdict; missing: records that
are absent."""
