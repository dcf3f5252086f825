"""What this machine is: facts, vendor libraries, and what spoils measurements here."""
