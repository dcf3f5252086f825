"""What `firsttouch port` says of a profile, as data: schema firsttouch-port/1.

Bytes and counts of copies, blocks and lives are exact: the journal has them. What kernels use within a block is
assumed. A finding is seen, likely (one innocent reading remains, and is named), or possible, which is never counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from firsttouch.advice.port.places import failed_words
from firsttouch.base.outputs import Output
from firsttouch.profile.calls import HostPlace
from firsttouch.profile.traced import CallLocation, FailedCallRow
from firsttouch.program.watched import PAGE_BYTES

FindingCertainty: TypeAlias = Literal["seen", "likely", "possible"]
OtherCopied: TypeAlias = Literal["managed", "sharing", "array", "static", "stack", "library"]
DataCertainty: TypeAlias = Literal["exact", "assumed", "unseen"]
CopyFate: TypeAlias = Literal["dropped", "restoring", "shared", "kept"]
KeptBecause: TypeAlias = Literal[
    "differs",
    "written",
    "overwritten",
    "changed",
    "interleaved",
    "read",
    "restores",
    "prepared",
    "result",
    "rewritten",
    "late",
    "unseen",
    "reset",
    "turns",
]
"""Why a host array stays beside its buffer, from the surest on; the last four: what is not seen where it does not."""
TooEarly: TypeAlias = Literal["reads", "writes"]
WaitCertainty: TypeAlias = Literal["likely", "possible"]
CERTAINTIES: dict[str, DataCertainty] = {
    "saved": "assumed",  # at most, if both sides can share
    "copies": "exact",
    "copied": "exact",
    "other_copies": "exact",
    "blocks.bytes": "exact",  # of parts of pools assumed
    "blocks.allocations": "exact",
    "blocks.partners": "exact",
    "blocks.ranges": "exact",
    "blocks.into": "exact",
    "blocks.out": "exact",
    "blocks.saves": "assumed",
    "blocks.launches": "exact",
    "blocks.may_write": "assumed",
    "blocks.unread": "exact",  # at least, where bytes are `unwatched`
    "blocks.unwatched": "exact",
    "blocks.read_again": "assumed",  # of large buffers, a part is looked at
    "copy_calls": "exact",
    "fills": "exact",
    "waits": "assumed",  # what kernels write, and when the CPU uses it
    "kernels": "exact",
    "shadow": "exact",
}
"""Of the numbers of the output that are in no finding, which has its own."""
MOST_PARTNERS = 100
"""The most ranges of the host that are listed of a block: the largest ones."""
MOST_RECORDS = 20
"""The most steps that a finding names: the first ones."""


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where something is in the trace: the number of the step, from 0 on, and its time since the start of the profile
    in seconds.
    """

    step: int
    t: float


class CopyCount(msgspec.Struct, frozen=True, kw_only=True):
    """Copies in one direction: how many, their bytes altogether, and the calls that make them, those with most bytes
    first.
    """

    copies: int = 0
    bytes: int = 0
    places: Sequence[CallLocation] = ()


class HostPartner(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the host that copies join with a block. place: what memory they are. window: the copies join other bytes
    with the same part of the block in turn, so that it is the block that vanishes, not they. touched: the call of
    the earliest sampled page fault in them; None: unknown. every: one of how many page faults was sampled, so that
    earlier ones may be missing; 0: unknown. threads: that touched them; 0: unknown. kept: they stay beside the block,
    as copies of the fate "kept" say. array: the number of the host array, which other blocks may have parts of: bytes
    that overlap or adjoin are taken to be of one.
    """

    bytes: int
    place: HostPlace
    window: bool
    touched: CallLocation | None = None
    every: int = 0
    threads: int = 0
    kept: bool = False
    array: int

    @property
    def may_miss_touches(self) -> bool:
        return self.every != 1


class PortBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the device that the program allocates at one call: allocations of equal size that were never alive at
    once are one. kind: such as 'device' or 'managed'; name: of a static variable.

    partners: the largest of its `ranges`. into, out: copies to it and from it. saves: bytes that vanish if the block
    and its partners are one, at most, without those that an earlier block which still lives is one with. launches: that
    name it; None: not known of all. may_write: one of them may write it. unread: bytes that were copied back and that
    the CPU did not use before the next copy or the end; unwatched: those of which that is not known; read_again: bytes
    that it read after they were copied to the device; all None if the CPU was not watched. unused: what of it is not
    needed, in sentences. in_pool: "part" of an allocation that the program's own allocator divides, where it begins and
    ends being assumed; "whole" of such a one whose parts are not known; "" of others. helper: the call that allocates
    it, if that allocates others too; `place` is then where the helper was called.
    """

    number: int
    name: str
    bytes: int
    kind: str
    allocations: int
    place: CallLocation
    partners: Sequence[HostPartner]
    ranges: int
    into: CopyCount
    out: CopyCount
    saves: int
    launches: int | None
    may_write: bool
    unread: int | None = None
    unwatched: int | None = None
    read_again: int | None = None
    unused: Sequence[str] = ()
    in_pool: Literal["", "part", "whole"] = ""
    helper: CallLocation | None = None

    @property
    def is_read_again(self) -> bool:
        """Whether the CPU read more again than the first page and the last one, which hold other data too."""
        return (self.read_again or 0) > 2 * PAGE_BYTES


class SavedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """What a unified version saves at most, at the time `t` (s since the start of the profile) at which that is most.

    of: what the program holds then: device bytes of its blocks, and host bytes that have a living partner.
    """

    bytes: int
    of: int
    device: int
    host: int
    t: float


class NeedlessCopies(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of one call whose bytes the other side holds already. since: the call that brought these bytes there.

    certainty: possible where only a part of the bytes was compared; --check-copies compares all. reading: the
    innocent reading that remains, '' of what was seen. compared, each: of how many bytes of each copy it is known
    that they are those of the earlier one, since they were compared or the CPU did not write them, and how many it
    has. only_wait: some are also the only wait for an earlier copy that does not block, so that a wait has to be
    there instead. renewed: how often the buffers were freed and allocated again between a copy and the earlier one, so
    that the other side would have the bytes only if they lived on; 0: they did.
    """

    certainty: FindingCertainty
    reading: str
    direction: Literal["h2d", "d2h"]
    blocks: Sequence[int]
    copies: int
    bytes: int
    place: CallLocation
    since: CallLocation
    compared: int
    each: int
    records: Sequence[StepRecord]
    only_wait: bool = False
    renewed: int = 0


class CopyCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of a call between the host and blocks that have a partner, and what becomes of them.

    fate: "dropped", as both sides become one; "restoring", which bring old values back from a buffer of their own;
    "shared", whose side of the host becomes one with another block, so that they remain between the two blocks; "kept",
    whose both sides remain, as one of them still needs what the other overwrites. reason: what makes them stay, or what
    is not seen of dropped ones, '' else; unless: when it is otherwise, '' where that is seen.
    """

    fate: CopyFate
    reason: KeptBecause | Literal[""] = ""
    unless: str = ""
    blocks: Sequence[int]
    place: CallLocation
    copies: int
    bytes: int


class FilledFirst(msgspec.Struct, frozen=True, kw_only=True):
    """Fills of buffers at a call that come before copies which are dropped. As one with the host array, they would
    destroy what the CPU has prepared there.

    is_needless: the copies overwrite all that is filled before it is used, so that the fills are left out; else they
    have to come before the CPU prepares the array. copies: the calls of the copies.
    """

    is_needless: bool
    blocks: Sequence[int]
    place: CallLocation
    copies: Sequence[CallLocation]
    fills: int
    bytes: int


class NeededWait(msgspec.Struct, frozen=True, kw_only=True):
    """Where a unified version has to wait for the device by a call of its own: copies that it does without were the
    only wait between the device's work and the CPU.

    before: what the CPU does too early else. "reads": the wait is needed in place of the copies, or after them, if they
    stay (`stays`), between two buffers. "writes": it is needed after the work, before the CPU writes what the copies
    bring; or after copies to the device that stay, before it writes what they copied. certainty: possible, if it is not
    known that the CPU does that while the work may be under way: it may read after the wait that is `following`, or may
    have written before the work began. following: where the program waits next, if nothing may write before what was
    copied back and is read; or, of copies to the device that stay, and of `unread` ones, whatever comes before; None:
    no such call. unread: after so many other copies of the call the CPU was seen not to use what was copied, and after
    none to use it before such a wait, so that it is only possible that it does after these. copy: the call of the
    copies; work: that of the latest work, such as a launch, of `kernel`, or ''; earlier: the calls of other work that
    the wait has to be for; copies: how many times.
    """

    before: TooEarly
    certainty: WaitCertainty = "likely"
    copy: CallLocation
    work: CallLocation
    earlier: Sequence[CallLocation] = ()
    kernel: str
    following: CallLocation | None = None
    copies: int
    records: Sequence[StepRecord]
    stays: bool = False
    unread: int = 0


class OtherCopies(msgspec.Struct, frozen=True, kw_only=True):
    """Copies between host and device that a unified version makes too, or that are none of `copies` for what they are
    `of`: memory that is managed already, buffers that share memory with the CPU, arrays of the texture units, static
    variables of the device, variables of the stack, memory that a library of the vendor allocates. Those of the first
    two are to and from the device, too.
    """

    of: OtherCopied
    copies: int
    bytes: int
    places: Sequence[CallLocation]


class PortFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know of a program. text: what happens. reading: the innocent reading that remains, '' of what was
    seen. to_fix: it has to be fixed before memory is unified.

    strategy: what to do about it, and link, where docs/porting.md says more; both '' of what is only possible. count:
    how often; bytes: altogether. records: the steps of the trace, the first ones.
    """

    kind: str
    certainty: FindingCertainty
    to_fix: bool
    text: str
    reading: str
    strategy: str
    link: str
    bytes: int
    count: int
    blocks: Sequence[int]
    places: Sequence[CallLocation]
    records: Sequence[StepRecord]


class SearchedHazard(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a hazard was looked for, and what that covers, or why it was not. limit: what was left out, as a name;
    '' if nothing was.
    """

    kind: str
    searched: bool
    limit: str
    text: str


class KernelBytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What launches of a kernel used of a block, each as much, in whole granules of 64 KiB.

    block: its number; bytes: its size. used: bytes that are read or written; read, written: bytes that are.
    """

    kernel: str
    block: int
    place: CallLocation
    bytes: int
    launches: int
    used: int
    read: int
    written: int


class KernelUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a second run told of the bytes that kernels use.

    launches: of the first run; matched: those that the second run made too. recorded: those whose bytes were recorded;
    alike, varying: those like others whose bytes were always the same, or not. outside: accesses beside all memory of
    CUDA. elsewhere: bytes of blocks that the first run does not have. opaque: launches that copy where a tensor map
    says; graphs: those of graphs with several kernels, which are not told apart. slowdown: the time of the second run
    as a multiple of the first's. ended: why what follows is not known; notices: what kept the second run from telling,
    in sentences. kernels: what each used; of those that left most out, first.
    """

    launches: int
    matched: int
    recorded: int
    alike: int
    varying: int
    outside: int
    elsewhere: int
    opaque: int
    graphs: int
    slowdown: float | None
    ended: str
    notices: Sequence[str]
    kernels: Sequence[KernelBytes]

    @property
    def told(self) -> int:
        """The launches whose bytes are exact."""
        return self.recorded + self.alike


class ProcessAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A traced process. copies, copied, saved: as of `PortFindings`; hazards: the kinds of findings that have
    to be fixed. saved, of and hazards are None where only copies were counted, of all but the busiest processes;
    then copies and copied are all between host and device. rank: of an MPI launcher, '' without one.
    """

    pid: int
    rank: str = ""
    command: Sequence[str]
    copies: int
    copied: int
    saved: int | None = None
    of: int | None = None
    hazards: Sequence[str] | None = None


class ShadowLook(msgspec.Struct, frozen=True, kw_only=True):
    """What a run showed that looked at arrays of the host at each call (--shadow): at how many, of how many of them not
    at everything, and how many differences there would be if they were one memory with their blocks.
    """

    arrays: int
    partial: int
    differences: int


class PortFindings(Output, frozen=True, kw_only=True, tag="firsttouch-port/1"):
    """What `firsttouch port --json` prints.

    directory: the profile; pid: the process that it is about; others: those that were traced too; processes: all that
    did, the busiest first, if there are several, over which `summary` adds up; status: the target's exit status,
    None if unknown. copies, copied: between the host and blocks that have a partner; other_copies: those between
    host and device that are none of them. copy_calls: `copies` by call, and which of them a unified version needs
    too. fills: those that come before copies which are dropped. waits: for the device, that a unified version
    needs. needless: copies whose bytes the other side holds, copied within `copies` too. unseen: what the profile
    cannot tell, in sentences. incomplete: what the trace lacks, in sentences; partial: whether it lacks records, so
    that all numbers are of the rest. failed: calls that returned an error, in their order, which count as nothing
    else. kernels: None if there was no second run; shadow: None without --shadow. certainties: of the fields with
    numbers, by their names.
    """

    directory: str
    command: Sequence[str]
    pid: int
    others: Sequence[int]
    processes: Sequence[ProcessAnswer]
    status: int | None
    saved: SavedBytes
    copies: int
    copied: int
    other_copies: Sequence[OtherCopies]
    blocks: Sequence[PortBlock]
    needless: Sequence[NeedlessCopies]
    findings: Sequence[PortFinding]
    searched: Sequence[SearchedHazard]
    unseen: Sequence[str]
    incomplete: Sequence[str]
    partial: bool = False
    failed: Sequence[FailedCallRow] = ()
    copy_calls: Sequence[CopyCalls] = ()
    fills: Sequence[FilledFirst] = ()
    waits: Sequence[NeededWait] = ()
    kernels: KernelUse | None = None
    shadow: ShadowLook | None = None
    certainties: Mapping[str, DataCertainty] = msgspec.field(default_factory=lambda: {**CERTAINTIES})

    @property
    def lacking(self) -> list[str]:
        """What is not in the trace of the process, in sentences."""
        texts = [*filter(None, [failed_words(self.failed)]), *self.incomplete]
        if self.pid in self.others:
            texts.insert(
                0, f"another program of process {self.pid}, which called exec; the one that copies more is shown"
            )
        return texts

    @property
    def counted(self) -> Sequence[PortFinding]:
        """The findings that are seen or likely."""
        return [finding for finding in self.findings if finding.certainty != "possible"]

    @property
    def hazards(self) -> set[str]:
        """The kinds of the findings that have to be fixed."""
        return {finding.kind for finding in self.findings if finding.to_fix}
