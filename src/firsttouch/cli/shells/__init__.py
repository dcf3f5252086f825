"""The scripts by which shells complete the words of a call."""

SCRIPTS = {"bash": "firsttouch", "zsh": "_firsttouch", "fish": "firsttouch.fish"}
"""By shell: the name by which it finds the script in this folder."""
