#!/usr/bin/env python3
"""Puts what abidw wrote into an order that does not depend on how the library was linked.

usage: abi_order.py FILE
abidw lists types and functions by the source file in whose debug information it came across them first. Here they are one
list: types by name, then functions by name, so that a change of the interface changes its own lines alone.
"""
import sys
import xml.etree.ElementTree as tree


def key(element):
    return element.tag == "function-decl", element.tag, element.get("name", ""), element.get("id", "")


def main():
    corpus = tree.parse(sys.argv[1])
    root = corpus.getroot()
    units = root.findall("abi-instr")
    everything = {}
    for unit in units:
        for element in unit:
            everything.setdefault(key(element), element)
        root.remove(unit)
    # Numbers of basic types depend on which was met first.
    names = {e.get("id"): e.get("name").replace(" ", "-") for e in everything.values() if e.tag == "type-decl"}
    one = tree.SubElement(root, "abi-instr", units[0].attrib | {"path": "libshoal"})
    one.extend(everything[k] for k in sorted(everything))
    for element in one.iter():
        for attribute in ("id", "type-id"):
            if element.get(attribute) in names:
                element.set(attribute, names[element.get(attribute)])
    tree.indent(root)
    with open(sys.argv[1], "wb") as out:
        corpus.write(out)
        out.write(b"\n")


main()
