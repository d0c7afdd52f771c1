"""Deprecated name of the package `readplan`, for notebooks and programs of 0.2. May import: nothing of storelab."""

import sys
import warnings

import readplan

warnings.warn("storelab.readplan is a separate package now: import readplan", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = readplan
