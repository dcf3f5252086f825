"""A launcher that stands in for mpirun: starts N processes that know their rank, and ends all if one fails.

python launcher.py N COMMAND...
"""

import os
import subprocess
import sys
import time

if __name__ == "__main__":
    count, command = int(sys.argv[1]), sys.argv[2:]
    ranks = [subprocess.Popen(command, env=os.environ | {"FIRSTTOUCH_RANK_NUMBER": str(rank)}) for rank in range(count)]
    while (ends := [rank.poll() for rank in ranks]).count(None):
        if any(ends):
            for rank in ranks:
                rank.kill()
            sys.exit("a rank failed")
        time.sleep(0.02)
