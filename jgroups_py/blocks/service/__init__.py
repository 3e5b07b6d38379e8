"""Services with types: methods of a class, called at another member as if it were here.

Place: above blocks/rpc, whose requests carry the calls. A service is a class with @method; a stub has its type, so a
type checker sees arguments and results. What does not fit together is refused before it runs; remote exceptions come
back as the classes that the method declares, and no bytes choose a class. See design/services.md.
"""
from jgroups_py.blocks.rpc.calls import Mode
from jgroups_py.blocks.service.aio import AsyncServices
from jgroups_py.blocks.service.base import TypedAnswers, caller
from jgroups_py.blocks.service.interface import Service, method
from jgroups_py.blocks.service.sync import Services
from jgroups_py.model.errors import RemoteFault

__all__ = ["AsyncServices", "Mode", "RemoteFault", "Service", "Services", "TypedAnswers", "caller", "method"]
