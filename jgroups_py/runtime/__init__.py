"""The real world around the pure core: a loop for each channel, UDP and TCP sockets, links, files, the clock.

Knows the core (node, outputs, events), is known by the channels, and knows nothing of `sim/`.

loop.py        the duty cycle of a channel, whatever thread runs it
host.py        hosts one node on the loop: carries out what it asks, tells the channel what it says
sends.py       from the application's threads to the loop, bounded
inbox.py       from the loop to the application, with the backlog that flow control goes by
net.py         all sockets of one stack
udp.py tcp.py  sockets of the two transports
links.py       FD_SOCK's connections
files.py       the shared folder of FILE_PING
interfaces.py  what "site_local" and its like mean on this machine
"""
