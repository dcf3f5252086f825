"""reproduced.json in a results directory: which part of which paper its points repeat."""

from __future__ import annotations

import msgspec

REPRODUCED = "reproduced.json"


class Reproduced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """paper: by its name in the published results. part: a figure, a table or a section, as 'Fig. 3'."""

    paper: str
    part: str
