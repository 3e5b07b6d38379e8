"""XML stack files, in JGroups' own format, with the line of every element and property.

    <config xmlns="urn:org:jgroups"> <UDP mcast_port="45588"/> <PING/> ... </config>

DTDs, entities and external references are refused (defusedxml), and so is anything but a plain list of protocols.
expat gives the line of an element; that of an attribute is found by searching the text of the element.
"""
from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from xml.sax import SAXException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, InputSource

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from jgroups_py.config.problems import Place, StackError, stop
from jgroups_py.config.raw import RawItem, RawProperty, item

NAMESPACE = "urn:org:jgroups"
ROOT = "config"
ROOT_ATTRIBUTES = ("xmlns", "version")
_ATTRIBUTE = re.compile(r"""\s*([^\s=<>/]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_TAG = re.compile(r"<[^\s<>/]+")


def parse(text: str, file: str) -> list[RawItem]:
    """The protocols of an XML stack file, in its order (lowest first).

    Raises:
        StackError: it is not XML, or not a list of protocols.
    """
    data = text.encode(errors="replace")
    parser = DefusedExpatParser(forbid_dtd=True)
    reader = _Reader(data, file, parser)
    parser.setContentHandler(reader)
    source = InputSource()
    source.setByteStream(BytesIO(data))
    source.setEncoding("utf-8")                       # whatever the XML declares: the text is decoded already
    try:
        parser.parse(source)
    except StackError:
        raise
    except DefusedXmlException:
        raise stop(reader.place(), "DTDs, entities and external references are refused in stack files") from None
    except SAXException as error:
        line = getattr(error, "getLineNumber", int)() or 0
        reason = error.getMessage().removeprefix("not well-formed ").strip("()")     # expat: not well-formed (...)
        raise stop(Place(file, line), f"not well-formed XML: {reason}") from None
    return reader.items


class _Reader(ContentHandler):
    """Makes items of the elements that expat finds. depth: how many elements are open."""

    def __init__(self, data: bytes, file: str, parser: DefusedExpatParser) -> None:
        super().__init__()
        self.data = data
        self.file = file
        self.parser: Any = parser
        self.depth = 0
        self.items: list[RawItem] = []

    def place(self) -> Place:
        return Place(self.file, self.parser.getLineNumber() or 1)

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        place = self.place()
        if self.depth == 0:
            self.root(name, attrs, place)
        elif self.depth == 1:
            self.protocol(name, attrs, place)
        else:
            above = self.items[-1]
            owner = getattr(above, "name", "include")
            raise stop(place, f"{owner} must not contain elements, found <{name}>; properties are attributes")
        self.depth += 1

    def endElement(self, name: str) -> None:
        self.depth -= 1

    def characters(self, content: str) -> None:
        if content.strip():
            raise stop(self.place(), f"text between elements: {content.strip()[:40]!r}; a stack file has only elements")

    def root(self, name: str, attributes: AttributesImpl, place: Place) -> None:
        if name != ROOT:
            raise stop(place, f"the root element is <{name}>; a stack file is <config xmlns=\"{NAMESPACE}\"> with one "
                              "element a protocol, the transport first")
        namespace = attributes.get("xmlns", NAMESPACE)
        if namespace != NAMESPACE:
            raise stop(place, f"xmlns is {namespace!r}; allowed is {NAMESPACE!r} or none")
        for attribute in attributes.getNames():
            if attribute not in ROOT_ATTRIBUTES and ":" not in attribute:
                raise stop(place, f"<config> has no attribute {attribute!r}; protocols are elements inside it")

    def protocol(self, name: str, attributes: AttributesImpl, place: Place) -> None:
        lines = self.attribute_lines(place.line)
        properties = tuple(
            RawProperty(attribute, attributes.getValue(attribute), Place(self.file, lines.get(attribute, place.line)))
            for attribute in attributes.getNames() if not attribute.startswith(("xmlns:", "xsi:", "xml:"))
            and attribute != "xmlns")
        found = item(name, properties, place)
        if found is None:
            raise stop(place, "an include names one file: <include file=\"udp-default.xml\"/>")
        self.items.append(found)

    def attribute_lines(self, line: int) -> dict[str, int]:
        """Attribute -> its line, for the element at expat's position, which is on `line`."""
        # expat counts bytes: cut before decoding, so that multi-byte characters before the element do not matter.
        start = max(0, self.parser._parser.CurrentByteIndex)
        text = self.data[start:].decode(errors="replace")
        tag = _TAG.match(text)
        lines: dict[str, int] = {}
        at = tag.end() if tag else len(text)
        while (match := _ATTRIBUTE.match(text, at)) is not None:
            lines[match[1]] = line + text.count("\n", 0, match.start(1))
            at = match.end()
        return lines
