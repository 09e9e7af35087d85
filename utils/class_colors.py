"""The classes of known data sets and their colours. Imports nothing slow: settings name them."""

from typing import NamedTuple


class ClassColor(NamedTuple):
    """A class of a data set and its colour, in hexadecimal digits.

    is_evaluated: whether scores count the class.
    """

    name: str
    color: str
    is_evaluated: bool = True


# ids 0 .. 34 of Cityscapes (Cordts et al. 2016)
CITYSCAPES = (
    ClassColor("unlabeled", "000000", is_evaluated=False),
    ClassColor("ego vehicle", "000000", is_evaluated=False),
    ClassColor("rectification border", "000000", is_evaluated=False),
    ClassColor("out of roi", "000000", is_evaluated=False),
    ClassColor("static", "000000", is_evaluated=False),
    ClassColor("dynamic", "6f4a00", is_evaluated=False),
    ClassColor("ground", "510051", is_evaluated=False),
    ClassColor("road", "804080"),
    ClassColor("sidewalk", "f423e8"),
    ClassColor("parking", "faaaa0", is_evaluated=False),
    ClassColor("rail track", "e6968c", is_evaluated=False),
    ClassColor("building", "464646"),
    ClassColor("wall", "66669c"),
    ClassColor("fence", "be9999"),
    ClassColor("guard rail", "b4a5b4", is_evaluated=False),
    ClassColor("bridge", "966464", is_evaluated=False),
    ClassColor("tunnel", "96785a", is_evaluated=False),
    ClassColor("pole", "999999"),
    ClassColor("polegroup", "999999", is_evaluated=False),
    ClassColor("traffic light", "faaa1e"),
    ClassColor("traffic sign", "dcdc00"),
    ClassColor("vegetation", "6b8e23"),
    ClassColor("terrain", "98fb98"),
    ClassColor("sky", "4682b4"),
    ClassColor("person", "dc143c"),
    ClassColor("rider", "ff0000"),
    ClassColor("car", "00008e"),
    ClassColor("truck", "000046"),
    ClassColor("bus", "003c64"),
    ClassColor("caravan", "00005a", is_evaluated=False),
    ClassColor("trailer", "00006e", is_evaluated=False),
    ClassColor("train", "005064"),
    ClassColor("motorcycle", "0000e6"),
    ClassColor("bicycle", "770b20"),
    ClassColor("license plate", "00008e", is_evaluated=False),
)
# CMP Facades (Tylecek and Sara 2013), with the colours of pix2pix's pairs
CMP_FACADES = (
    ClassColor("background", "0000aa"),
    ClassColor("facade", "0000ff"),
    ClassColor("window", "0055ff"),
    ClassColor("door", "00aaff"),
    ClassColor("cornice", "00ffff"),
    ClassColor("sill", "55ffaa"),
    ClassColor("balcony", "aaff55"),
    ClassColor("blind", "ffff00"),
    ClassColor("deco", "ffaa00"),
    ClassColor("molding", "ff5500"),
    ClassColor("pillar", "ff0000"),
    ClassColor("shop", "aa0000"),
)
