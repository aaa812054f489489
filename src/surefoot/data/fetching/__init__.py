"""Data sets fetched from the network into the data store."""

from surefoot.data.fetching._download import Damaged, NoSpace, Unreachable
from surefoot.data.fetching._fetch import fetch
from surefoot.data.fetching._fetchable import FETCHABLE, Fetchable

__all__ = ["FETCHABLE", "Damaged", "Fetchable", "NoSpace", "Unreachable", "fetch"]
