"""python -m firsttouch"""

from firsttouch.cli.main import main

main()
