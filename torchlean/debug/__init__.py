"""Finding out what a program does: printing and checking while it runs, naming what made a NaN, graphs as text.

`print` and `check` state remarks inside a function; they run under every transform and change no value. `check_nan`,
`check_finite` and `checkify` take a function; `nan_checks` watches eager code; `show`, `diff` and `stats` read graphs.
"""

from torchlean.debug.checkify import Error, Errors, checkify
from torchlean.debug.remarks import check, print
from torchlean.debug.statistics import Statistics, stats
from torchlean.debug.text import Text, show
from torchlean.debug.walk import check_finite, check_nan
from torchlean.debug.watch import nan_checks
from torchlean.ir.difference import Difference, diff

__all__ = [
    "Difference",
    "Error",
    "Errors",
    "Statistics",
    "Text",
    "check",
    "check_finite",
    "check_nan",
    "checkify",
    "diff",
    "nan_checks",
    "print",
    "show",
    "stats",
]
