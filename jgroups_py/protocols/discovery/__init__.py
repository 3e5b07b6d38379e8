"""Discovery: who is there, before we are in a group and (for MERGE3) later."""
