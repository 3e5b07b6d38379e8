"""The real world around the pure core: a loop for each channel, UDP and TCP sockets, links, files, the clock.

Knows the core (node, outputs, events), is known by the channels, and knows nothing of `simulator/`.

loop.py poller.py     the rounds of a channel over its sockets, timers and queues, whatever thread runs them
host.py               hosts one node on the loop: carries out its outputs, hands the rest to the channel
send_queue.py         from the application's threads to the loop, bounded
inbox.py              from the loop to the application, with the backlog that flow control goes by
memory.py             how the C library gives memory back
sockets/              all sockets of one stack: UDP, TCP, links of FD_SOCK, byte streams; where a frame goes
disk/                 the journal of RELAY, the archive's recorder, the shared folder of FILE_PING
name_resolution/      resolvers of host names, off the loop

Ring 4.
"""
