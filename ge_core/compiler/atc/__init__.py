"""ATC, CANN's compiler: its command line, its rules on shapes, and the program itself."""

from ge_core.compiler.atc.options import *  # noqa: F403
