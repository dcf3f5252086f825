"""How the ranks of a call are started: by the mpirun that belongs to mpi4py's MPI, or as the user says."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from firsttouch.base.errors import UsageError
from firsttouch.machine.host import usable_cores
from firsttouch.machine.mpi import Mpi, check_mpi4py, find_mpi
from firsttouch.workers.ranks import Launcher

PLACEHOLDER = "{ranks}"
_OPEN_MPI: Mapping[str, str] = {
    # Ranks may be more than processors, and each chooses its processors itself. The names of Open MPI 5, then of 4.
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_opal_signal": "",  # no backtrace after the last words of a rank that crashes
}
_CROWDED: Mapping[str, str] = {
    # With more ranks than processors. By default these of MPICH's operations wait in a loop that gives no processor
    # away, so every 32 KiB cost some time slices: 0.7 s for a broadcast of 1 MiB to 4 ranks on 2 processors.
    f"MPIR_CVAR_{operation}_POSIX_INTRA_ALGORITHM": "mpir"
    for operation in ("BARRIER", "BCAST", "REDUCE", "ALLREDUCE")
}
_AS_ROOT: Mapping[str, str] = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Launching:
    """The launchers of a call. command: the text of --launcher, with {ranks} for their number; '' for mpirun.

    Raises:
        UsageError: the command lacks {ranks}, or there is no such program.
    """

    def __init__(self, command: str = "") -> None:
        self._words = self._parse(command) if command else []
        self._mpi: Mpi | None = None

    @staticmethod
    def _parse(command: str) -> list[str]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--launcher '{command}': {error}") from None
        if PLACEHOLDER not in command:
            raise UsageError(f"--launcher '{command}' does not say {PLACEHOLDER}, which stands for their number")
        if not words or shutil.which(words[0]) is None:
            raise UsageError(f"--launcher '{command}': there is no program {words[0] if words else ''}")
        return words

    def check(self) -> None:
        """Raises UsageError if no ranks can be started; the text says what to install."""
        if self._words:
            check_mpi4py()
        elif self._mpi is None:
            self._mpi = find_mpi()

    def launcher(self, ranks: int, mpi: bool) -> Launcher:
        """The launcher of so many ranks, which use MPI or need none. Raises UsageError like check()."""
        if not (mpi or self._words):
            return Launcher([])
        if mpi:
            self.check()
        environment = dict(_OPEN_MPI) | (dict(_AS_ROOT) if os.geteuid() == 0 else {})
        if self._words:
            words = [word.replace(PLACEHOLDER, str(ranks)) for word in self._words]
            return Launcher(words, environment, remote=True)
        assert self._mpi is not None
        if ranks > len(usable_cores()):
            environment |= _CROWDED
        return Launcher([self._mpi.mpirun, "-n", str(ranks)], environment)
