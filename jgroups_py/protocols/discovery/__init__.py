"""Discovery: finds members of the cluster, before this member has a view and (for MERGE3) later."""
