"""Files of a member: the journal of RELAY, the archive, the shared folder of FILE_PING."""
