"""The sockets of a stack: datagrams, the TCP mesh, links and byte streams."""
