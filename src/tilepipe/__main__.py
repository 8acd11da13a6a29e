"""`python -m tilepipe`."""

from tilepipe.cli.main import entry

entry()
