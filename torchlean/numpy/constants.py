"""Constants of the standard, as Python floats, and `newaxis`."""

import math

__all__ = ["e", "euler_gamma", "inf", "nan", "newaxis", "pi"]

e = math.e
pi = math.pi
inf = math.inf
nan = math.nan
euler_gamma = 0.5772156649015329
newaxis = None
