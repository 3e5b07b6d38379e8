"""HTTP for a running member: health, metrics, reports and events, read only.

    from jgroups_py.ops.http import HttpEndpoint

    with jg.JChannel("nyc.xml") as ch, HttpEndpoint(ch, "127.0.0.1:7580"):
        ch.connect("chat")
        ...

sampling.py takes what is shown, at most four times a second for all clients; api.py and metrics.py make answers of it;
events.py follows changes; endpoint.py runs it all on a thread of its own.
"""
from jgroups_py.ops.http.access import HttpAccess
from jgroups_py.ops.http.endpoint import HttpEndpoint

__all__ = ["HttpAccess", "HttpEndpoint"]
