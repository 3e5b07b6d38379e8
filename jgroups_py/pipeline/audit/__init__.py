"""The audit compares what the members sent and delivered, over all recorders.

world: the facts that each recorder recorded; delivered: the deliveries of one receiver; owed: the messages due to a
receiver; judge: pairs, findings and the verdict; missing: records that the archive lacks.
"""
