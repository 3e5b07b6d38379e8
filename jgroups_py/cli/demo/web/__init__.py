"""`jgroups demo --web`: the demo on the live page, with buttons for what happens. director.py obeys them, server.py
serves the page on loopback, pictures.py makes what it shows."""
